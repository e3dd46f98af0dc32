-- Schema version 10: what the providers bill for charged requests, beside what their callers were charged.

-- By the request's tokens, at the cost that was configured then; NULL if none was.
ALTER TABLE requests ADD COLUMN provider_cost_nano INTEGER
CHECK (provider_cost_nano IS NULL OR (provider_cost_nano >= 0 AND state = 'posted'));

-- As the provider reported it; NULL if it did not.
ALTER TABLE requests ADD COLUMN reported_cost_nano INTEGER
CHECK (reported_cost_nano IS NULL OR (reported_cost_nano >= 0 AND state = 'posted'));

-- Sums of the requests that have one or the other, kept in the transaction that ends them, by the
-- UTC day of the end. Most gateways configure no costs, and write nothing here.
CREATE TABLE daily_costs (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    -- Requests whose cost is known, what they were charged, and their cost.
    known INTEGER NOT NULL,
    charged_nano INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    -- Requests with a report, and its sum.
    reported INTEGER NOT NULL,
    reported_nano INTEGER NOT NULL,
    -- Requests with both, and how much more was reported than computed.
    compared INTEGER NOT NULL,
    difference_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id)
) STRICT, WITHOUT ROWID;
