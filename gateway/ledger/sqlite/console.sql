-- Schema version 2: the console. Who signs in, what was done by whom, codes, sums by day and hour.

-- A redeemed code is an entry of its own kind, so the table is made anew: SQLite cannot alter a CHECK.
CREATE TABLE entries_2 (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    kind TEXT NOT NULL CHECK (kind IN ('credit', 'code', 'charge', 'correction')),
    amount_nano INTEGER NOT NULL,
    balance_after_nano INTEGER NOT NULL,
    request_id TEXT REFERENCES requests (id),
    idempotency_key TEXT,
    note TEXT NOT NULL DEFAULT '',
    created_ms INTEGER NOT NULL,
    CHECK (kind <> 'charge' OR (amount_nano <= 0 AND request_id IS NOT NULL)),
    CHECK (kind NOT IN ('credit', 'code') OR (amount_nano > 0 AND request_id IS NULL)),
    -- A correction of 0 says of a request that its charge stays as it is.
    CHECK (kind <> 'correction' OR (note <> '' AND (amount_nano <> 0 OR request_id IS NOT NULL)))
) STRICT;

INSERT INTO entries_2 (
    id, account_id, kind, amount_nano, balance_after_nano, request_id, idempotency_key, note,
    created_ms
)
SELECT
    id, account_id, kind, amount_nano, balance_after_nano, request_id, idempotency_key, note,
    created_ms
FROM entries;

DROP TABLE entries;

ALTER TABLE entries_2 RENAME TO entries;

CREATE INDEX entries_by_account ON entries (account_id);

-- All but charges: few rows, counted and listed apart.
CREATE INDEX entries_moves ON entries (account_id, kind) WHERE kind <> 'charge';

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

-- Request ids are ordered by time, so this lists an account's calls, the latest first.
-- With key and model, so that those of others are passed over without a look at their rows.
CREATE INDEX requests_by_account ON requests (account_id, id, key_id, model);

-- Calls that ended in another hour than they began in: few. With them, sums by the hour of the end
-- say how many calls began on a day, and when.
CREATE INDEX requests_over_hours ON requests (account_id, started_ms, ended_ms, key_id, model)
WHERE ended_ms / 3600000 <> started_ms / 3600000;

-- When the key was last charged for a request, kept in the transaction that posts one.
ALTER TABLE keys ADD COLUMN last_used_ms INTEGER;

UPDATE keys SET last_used_ms = used.ended_ms
FROM (
    SELECT key_id, max(ended_ms) AS ended_ms FROM requests WHERE state = 'posted' GROUP BY key_id
) AS used
WHERE keys.id = used.key_id;

-- Sums of ended requests, kept in the transaction that ends one. Days and hours are counted from
-- the epoch, in UTC, and a request belongs to the one it ended in. `failed` were voided.
CREATE TABLE daily (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE hourly (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    hour INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, hour, model, key_id)
) STRICT, WITHOUT ROWID;

INSERT INTO hourly
SELECT
    account_id, ended_ms / 3600000, model, key_id,
    sum(state = 'posted'), sum(state = 'voided'),
    sum(iif(state = 'posted', input_tokens, 0)),
    sum(iif(state = 'posted', cached_input_tokens, 0)),
    sum(iif(state = 'posted', cache_write_tokens, 0)),
    sum(iif(state = 'posted', output_tokens, 0)),
    sum(cost_nano)
FROM requests
WHERE state <> 'pending'
GROUP BY 1, 2, 3, 4;

INSERT INTO daily
SELECT
    account_id, hour / 24, model, key_id, sum(requests), sum(failed), sum(input_tokens),
    sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens), sum(cost_nano)
FROM hourly
GROUP BY 1, 2, 3, 4;

CREATE TABLE passwords (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    -- scrypt, with its parameters and salt; the password itself is kept nowhere.
    hash TEXT NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;

-- At most one link an account: a new one ends the one before. Used once, by being deleted.
CREATE TABLE signin_links (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    opened_by TEXT NOT NULL CHECK (opened_by IN ('password', 'link')),
    device TEXT NOT NULL,
    address TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    -- Whatever happens; it ends earlier when nobody uses it.
    expires_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_by_account ON sessions (account_id);

CREATE TABLE codes (
    id TEXT PRIMARY KEY,
    batch TEXT NOT NULL,
    -- SHA-256 of its 80 random bits; the code itself is kept nowhere.
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

-- Who did what, apart from requests: for the operator's audit page.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    account TEXT,
    target TEXT,
    detail TEXT NOT NULL,
    address TEXT
) STRICT;

CREATE INDEX events_by_action ON events (action);

CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

-- Replies to console requests that carried an Idempotency-Key, committed with their effect.
CREATE TABLE replays (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    route TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    -- SHA-256 of the request.
    request BLOB NOT NULL CHECK (length(request) = 32),
    status INTEGER NOT NULL,
    reply BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, route, idempotency_key)
) STRICT, WITHOUT ROWID;
