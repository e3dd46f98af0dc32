-- Schema version 5: what was refused, and how providers answered, in sums that are kept for a month.
-- They are no part of the books: a kill loses the last seconds, and no balance depends on them.

-- Requests that the gateway refused itself, by hour since the epoch.
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

-- Completions and embeddings that were sent to a provider, by ten minutes since the epoch.
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
