-- The tables of version 14, taken to version 15: what a payment provider took for its payments. The sums by
-- day are by provider, too, and have what providers bill, which were sums of their own.

-- What the payment provider took for an order: for its payment, and for disputes of it. Each is told
-- once by its id there, and may be below zero where something was given back.
CREATE TABLE order_fees (
    id TEXT PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES orders (id),
    kind TEXT NOT NULL CHECK (kind IN ('payment', 'dispute')),
    amount_nano INTEGER NOT NULL,
    -- The one that the provider pays out in, which may not be the order's.
    currency TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX order_fees_by_order ON order_fees (order_id);

CREATE INDEX order_fees_by_time ON order_fees (created_ms);

DROP TABLE daily_costs;

DROP TABLE daily;

CREATE TABLE daily (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    -- '' for the sums of requests that were dropped before sums had a provider.
    provider TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    -- Requests whose cost to us is known, what they were charged, and that cost.
    known INTEGER NOT NULL,
    charged_nano INTEGER NOT NULL,
    provider_cost_nano INTEGER NOT NULL,
    -- Requests whose provider reported the cost, and the sum of it.
    reported INTEGER NOT NULL,
    reported_nano INTEGER NOT NULL,
    -- Requests with both, and how much more was reported than computed.
    compared INTEGER NOT NULL,
    difference_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id, provider)
) STRICT, WITHOUT ROWID;

INSERT INTO daily
SELECT account_id, ended_ms / 86400000, model, key_id, provider,
    count(*) FILTER (WHERE state = 'posted'), count(*) FILTER (WHERE state = 'voided'),
    coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cache_write_tokens + cache_write_1h_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0), sum(cost_nano),
    count(provider_cost_nano),
    coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0),
    coalesce(sum(provider_cost_nano), 0), count(reported_cost_nano),
    coalesce(sum(reported_cost_nano), 0), count(reported_cost_nano - provider_cost_nano),
    coalesce(sum(reported_cost_nano - provider_cost_nano), 0)
FROM requests
WHERE state = 'voided' OR charge_id <= (SELECT entry_id FROM folded) -- the next fold adds the rest
GROUP BY 1, 2, 3, 4, 5;
