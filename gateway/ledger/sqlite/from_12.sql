-- The tables of version 12, taken to version 13: it adds one-time codes.

-- One-time codes (TOTP), which are asked for beside the password.
CREATE TABLE totp (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    -- The key that the holder's app has, too: it has to be known in the clear.
    secret BLOB NOT NULL CHECK (length(secret) = 20),
    -- The time step of the last code that was accepted: only later ones are.
    last_step INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    -- NULL: the holder has not shown a code yet, and none is asked for.
    confirmed_ms INTEGER
) STRICT;

-- Codes that work in place of a one-time code. Each is used once, by being deleted.
CREATE TABLE recovery_codes (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    account_id INTEGER NOT NULL REFERENCES totp (account_id)
) STRICT;

CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
