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

-- The sums of `daily` over all accounts and keys: thousands of its rows are some of these. Amounts are in
-- two parts, wholes of 10^9 nano-units and rests, as they may be more than 64 bits together.
CREATE TABLE daily_totals (
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_wholes INTEGER NOT NULL,
    cost_rests INTEGER NOT NULL,
    known INTEGER NOT NULL,
    charged_wholes INTEGER NOT NULL,
    charged_rests INTEGER NOT NULL,
    provider_cost_wholes INTEGER NOT NULL,
    provider_cost_rests INTEGER NOT NULL,
    reported INTEGER NOT NULL,
    reported_wholes INTEGER NOT NULL,
    reported_rests INTEGER NOT NULL,
    compared INTEGER NOT NULL,
    difference_wholes INTEGER NOT NULL,
    difference_rests INTEGER NOT NULL,
    PRIMARY KEY (day, model, provider)
) STRICT, WITHOUT ROWID;

INSERT INTO daily_totals
SELECT
    day, model, provider, sum(requests), sum(failed), sum(input_tokens),
    sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens),
    sum(cost_nano / 1000000000), sum(cost_nano % 1000000000), sum(known),
    sum(charged_nano / 1000000000), sum(charged_nano % 1000000000),
    sum(provider_cost_nano / 1000000000), sum(provider_cost_nano % 1000000000), sum(reported),
    sum(reported_nano / 1000000000), sum(reported_nano % 1000000000), sum(compared),
    sum(difference_nano / 1000000000), sum(difference_nano % 1000000000)
FROM daily GROUP BY 1, 2, 3;
