-- The tables of version 13, taken to version 14: sums are folded, see `folds`, and so are the largest
-- indexes of requests.

CREATE TABLE folded (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    entry_id INTEGER NOT NULL
) STRICT;

INSERT INTO folded SELECT 1, coalesce(max(id), 0) FROM entries;

CREATE VIEW unfolded AS
SELECT requests.id, requests.account_id, key_id, model, provider, ended_ms, input_tokens,
    cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano,
    provider_cost_nano, reported_cost_nano
FROM entries CROSS JOIN requests ON requests.id = entries.request_id
WHERE entries.id > (SELECT entry_id FROM folded) AND kind = 'charge';

-- Indexes of requests, as tables: charges are filed in them by a fold, all others at once.

-- Ids are ordered by time, so this lists an account's calls, the latest first. With key and model, so
-- that those of others are passed over without a look at their rows.
CREATE TABLE calls_by_account (
    account_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

-- A provider, or a model, that is used rarely is found without a look at other calls. A call that
-- went on to another provider may be filed under both.
CREATE TABLE calls_by_provider (
    provider TEXT NOT NULL,
    id TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    PRIMARY KEY (provider, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE calls_by_model (
    model TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (model, id)
) STRICT, WITHOUT ROWID;

INSERT INTO calls_by_account SELECT account_id, id, key_id, model FROM requests ORDER BY 1, 2;

INSERT INTO calls_by_provider SELECT provider, id, account_id FROM requests ORDER BY 1, 2;

INSERT INTO calls_by_model SELECT model, id FROM requests ORDER BY 1, 2;

DROP INDEX requests_by_account;

DROP INDEX requests_by_provider;

DROP INDEX requests_by_model;
