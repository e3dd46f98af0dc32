-- What was refused, and how providers answered. These are no part of the books: a kill loses the last
-- seconds, and no balance depends on them.

-- Requests that the gateway refused itself, by hour.
CREATE TABLE refusals (
    hour INTEGER NOT NULL CHECK (hour >= 0),
    -- NULL for a key that is unknown.
    account_id INTEGER REFERENCES accounts (id),
    code TEXT NOT NULL,
    -- '' if the request named none, or none of the configuration.
    model TEXT NOT NULL,
    refused INTEGER NOT NULL CHECK (refused > 0),
    last_ms INTEGER NOT NULL,
    last_request_id TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX refusals_once ON refusals (hour, coalesce(account_id, 0), code, model);

-- Requests that were refused, one by one: callers quote the id. The latest of each day, for a week;
-- none without a valid key.
CREATE TABLE refused (
    request_id TEXT PRIMARY KEY,
    refused_ms INTEGER NOT NULL,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL,
    code TEXT NOT NULL,
    -- What the request asked for, even if nothing has that name; '' if it was refused before that is known.
    model TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX refused_by_account ON refused (account_id, request_id);

-- Completions and embeddings that were sent to a provider, by ten minutes.
CREATE TABLE upstream_calls (
    slot INTEGER NOT NULL CHECK (slot >= 0),
    provider TEXT NOT NULL,
    upstream_model TEXT NOT NULL,
    calls INTEGER NOT NULL CHECK (calls > 0),
    failures INTEGER NOT NULL CHECK (failures BETWEEN 0 AND calls),
    -- The last failure of these minutes; NULL if there is none. It never quotes the provider.
    failed_ms INTEGER,
    failed_request_id TEXT,
    failed_status INTEGER,
    reason TEXT,
    url TEXT,
    PRIMARY KEY (slot, provider, upstream_model)
) STRICT, WITHOUT ROWID;

-- How long complete replies took: counts by buckets of time, see `EDGES_MS`. Each reply is counted for
-- a provider's model ('route') and an account in the hour, and for the day, which is named by its first hour.
CREATE TABLE latencies (
    scope TEXT NOT NULL CHECK (scope IN ('route', 'account', 'day')),
    hour INTEGER NOT NULL CHECK (hour >= 0),
    -- 0, or '', where the scope has none.
    account_id INTEGER NOT NULL,
    provider TEXT NOT NULL,
    upstream_model TEXT NOT NULL,
    bucket INTEGER NOT NULL CHECK (bucket >= 0),
    firsts INTEGER NOT NULL CHECK (firsts >= 0),
    totals INTEGER NOT NULL CHECK (totals >= 0),
    PRIMARY KEY (scope, hour, account_id, provider, upstream_model, bucket)
) STRICT, WITHOUT ROWID;

-- The latest failures and rejections one by one, which tell why a call failed. They never quote the provider:
-- `type`, `code` and `param` are names in its error. `rejected` is 1 if it found fault with the request.
CREATE TABLE upstream_failures (
    id INTEGER PRIMARY KEY,
    failed_ms INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    status INTEGER,
    reason TEXT NOT NULL,
    url TEXT NOT NULL, type TEXT NOT NULL DEFAULT '', code TEXT NOT NULL DEFAULT '', param TEXT NOT NULL
    DEFAULT '', rejected INTEGER NOT NULL DEFAULT 0 CHECK (rejected IN (0, 1))) STRICT;

CREATE INDEX upstream_failures_by_request ON upstream_failures (request_id);

CREATE INDEX upstream_failures_by_kind ON upstream_failures (rejected, id);
