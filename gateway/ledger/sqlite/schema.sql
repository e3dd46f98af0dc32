-- Schema version 1. Money is in integer nano-units, times are Unix milliseconds.

CREATE TABLE accounts (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    operator INTEGER NOT NULL DEFAULT 0 CHECK (operator IN (0, 1)),
    suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)),
    -- The sum of the account's entries, kept in the transaction that adds an entry.
    balance_nano INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    -- SHA-256; the key itself is kept nowhere.
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    last4 TEXT NOT NULL CHECK (length(last4) = 4),
    -- A JSON array of model ids; NULL allows all.
    models TEXT CHECK (models IS NULL OR json_valid(models)),
    -- Limits: NULL is the default of the configuration, 0 is none.
    requests_per_minute INTEGER CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0),
    concurrency INTEGER CHECK (concurrency >= 0),
    cap_nano INTEGER CHECK (cap_nano >= 0),
    -- The sum of the key's posted requests, kept in the transaction that posts one.
    spent_nano INTEGER NOT NULL DEFAULT 0 CHECK (spent_nano >= 0),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    replaced_by TEXT REFERENCES keys (id)
) STRICT;

CREATE INDEX keys_by_account ON keys (account_id);

CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL REFERENCES keys (id),
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    stream INTEGER NOT NULL CHECK (stream IN (0, 1)),
    hold_nano INTEGER NOT NULL CHECK (hold_nano >= 0),
    state TEXT NOT NULL CHECK (state IN ('pending', 'posted', 'voided')),
    input_tokens INTEGER NOT NULL CHECK (input_tokens >= 0),
    cached_input_tokens INTEGER NOT NULL CHECK (cached_input_tokens >= 0),
    cache_write_tokens INTEGER NOT NULL CHECK (cache_write_tokens >= 0),
    output_tokens INTEGER NOT NULL CHECK (output_tokens >= 0),
    -- Prices are per million tokens, `request_price_nano` per request.
    input_price_nano INTEGER NOT NULL CHECK (input_price_nano >= 0),
    cached_input_price_nano INTEGER NOT NULL CHECK (cached_input_price_nano >= 0),
    cache_write_price_nano INTEGER NOT NULL CHECK (cache_write_price_nano >= 0),
    output_price_nano INTEGER NOT NULL CHECK (output_price_nano >= 0),
    request_price_nano INTEGER NOT NULL CHECK (request_price_nano >= 0),
    cost_nano INTEGER NOT NULL CHECK (cost_nano >= 0),
    estimated INTEGER NOT NULL CHECK (estimated IN (0, 1)),
    outcome TEXT NOT NULL,
    status INTEGER CHECK (status BETWEEN 100 AND 599),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    started_ms INTEGER NOT NULL CHECK (started_ms >= 0),
    first_byte_ms INTEGER CHECK (first_byte_ms >= 0),
    ended_ms INTEGER CHECK (ended_ms >= 0),
    CHECK ((state = 'pending') = (outcome = 'pending')),
    CHECK ((state = 'pending') = (ended_ms IS NULL)),
    -- What the caller of an interrupted request saw, nobody knows.
    CHECK ((outcome IN ('pending', 'interrupted')) = (status IS NULL)),
    CHECK (outcome <> 'interrupted' OR state = 'voided'),
    CHECK (state = 'posted' OR cost_nano = 0)
) STRICT;

-- What is in flight, or was at a crash: few rows, looked for by holds, audit and recovery.
CREATE INDEX requests_pending ON requests (account_id) WHERE state = 'pending';

CREATE INDEX requests_interrupted ON requests (started_ms) WHERE outcome = 'interrupted';

CREATE TRIGGER requests_settle_once BEFORE UPDATE ON requests WHEN OLD.state <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'a request is settled once');
END;

CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    kind TEXT NOT NULL CHECK (kind IN ('credit', 'charge', 'correction')),
    amount_nano INTEGER NOT NULL,
    balance_after_nano INTEGER NOT NULL,
    request_id TEXT REFERENCES requests (id),
    idempotency_key TEXT,
    note TEXT NOT NULL DEFAULT '',
    created_ms INTEGER NOT NULL,
    CHECK (kind <> 'charge' OR (amount_nano <= 0 AND request_id IS NOT NULL)),
    CHECK (kind <> 'credit' OR (amount_nano > 0 AND request_id IS NULL)),
    -- A correction of 0 says of a request that its charge stays as it is.
    CHECK (kind <> 'correction' OR (note <> '' AND (amount_nano <> 0 OR request_id IS NOT NULL)))
) STRICT;

CREATE INDEX entries_by_account ON entries (account_id);

CREATE UNIQUE INDEX entries_one_charge ON entries (request_id) WHERE kind = 'charge';

CREATE INDEX entries_corrections ON entries (request_id)
WHERE kind = 'correction' AND request_id IS NOT NULL;

CREATE UNIQUE INDEX entries_idempotent ON entries (account_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;

CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

-- What other processes committed, for the server's memory. AUTOINCREMENT: a number never comes
-- back, so "since the last seen" stays right after old rows were deleted.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'key')),
    id TEXT NOT NULL
) STRICT;

-- Up to `entry_id` the entries were proven; a later audit may begin there.
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY,
    entry_id INTEGER NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;
