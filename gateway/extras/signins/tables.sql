-- Signing in to the console.

-- Several people may sign in to an account, each in a way of their own: `person` is the name of one,
-- or empty for the account's own sign-in. One that has a name exists once it has a password.
CREATE TABLE passwords (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    -- scrypt, with its parameters and salt.
    hash TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    -- The last time that somebody signed in, by whatever way; NULL if nobody did since it was counted.
    signed_in_ms INTEGER,
    PRIMARY KEY (account_id, person)
) STRICT;

-- One-time codes (TOTP), which are asked for beside the password.
CREATE TABLE totp (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    -- The key that the person's app has, too: it has to be known in the clear.
    secret BLOB NOT NULL CHECK (length(secret) = 20),
    -- The time step of the last code that was accepted: only later ones are.
    last_step INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    -- NULL: the person has not shown a code yet, and none is asked for.
    confirmed_ms INTEGER,
    PRIMARY KEY (account_id, person)
) STRICT;

-- Codes that work in place of a one-time code. Each is used once, by being deleted.
CREATE TABLE recovery_codes (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    account_id INTEGER NOT NULL,
    person TEXT NOT NULL,
    FOREIGN KEY (account_id, person) REFERENCES totp (account_id, person)
) STRICT;

CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id, person);

-- At most one link a person: a new one ends the one before. Used once, by being deleted.
CREATE TABLE signin_links (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, person)
) STRICT;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    opened_by TEXT NOT NULL CHECK (opened_by IN ('password', 'link', 'identity header')),
    device TEXT NOT NULL,
    address TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    -- Whatever happens; it ends earlier when nobody uses it.
    expires_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_by_account ON sessions (account_id, person);
