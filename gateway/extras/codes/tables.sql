-- Codes that can be redeemed for credit.

CREATE TABLE codes (
    id TEXT PRIMARY KEY,
    batch TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    last4 TEXT NOT NULL CHECK (length(last4) = 4),
    amount_nano INTEGER NOT NULL CHECK (amount_nano > 0),
    note TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    voided_ms INTEGER,
    redeemed_ms INTEGER,
    redeemed_by INTEGER REFERENCES accounts (id),
    entry_id INTEGER UNIQUE REFERENCES entries (id),
    CHECK ((redeemed_ms IS NULL) = (redeemed_by IS NULL)),
    CHECK ((redeemed_ms IS NULL) = (entry_id IS NULL)),
    CHECK (redeemed_ms IS NULL OR voided_ms IS NULL)
) STRICT;

CREATE INDEX codes_by_batch ON codes (batch);

CREATE TRIGGER codes_end_once BEFORE UPDATE ON codes
WHEN OLD.redeemed_ms IS NOT NULL OR OLD.voided_ms IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a code is redeemed or voided once');
END;

CREATE TRIGGER codes_no_replace BEFORE INSERT ON codes
WHEN EXISTS (
    SELECT 1 FROM codes
    WHERE id = NEW.id OR rowid = NEW.rowid OR digest = NEW.digest OR entry_id = NEW.entry_id
)
BEGIN
    SELECT RAISE(ABORT, 'a code is made once');
END;

CREATE TRIGGER codes_keep_id BEFORE UPDATE ON codes
WHEN NEW.id <> OLD.id OR NEW.rowid <> OLD.rowid OR NEW.digest <> OLD.digest OR EXISTS (
    SELECT 1 FROM codes WHERE entry_id = NEW.entry_id AND id <> NEW.id
)
BEGIN
    SELECT RAISE(ABORT, 'a code keeps its id, its digest and its entry');
END;

CREATE TRIGGER codes_no_delete BEFORE DELETE ON codes
BEGIN
    SELECT RAISE(ABORT, 'codes are kept');
END;
