-- The charges and sums of requests and moves, in the SQL of both databases.

INSERT INTO entries (
    account_id, kind, amount_nano, balance_after_nano, request_id, created_ms
)
SELECT account_id, 'charge', -cost_nano,
    balance_nano - sum(cost_nano) OVER (PARTITION BY account_id ORDER BY requests.id),
    requests.id, ended_ms
FROM requests JOIN (
    SELECT account_id, sum(amount_nano) AS balance_nano FROM entries GROUP BY 1
) AS credited USING (account_id)
WHERE state = 'posted' ORDER BY requests.id;

UPDATE accounts SET balance_nano = sums.balance_nano FROM (
    SELECT account_id, sum(amount_nano) AS balance_nano FROM entries GROUP BY 1
) AS sums WHERE accounts.id = account_id;

UPDATE keys SET spent_nano = sums.cost_nano, last_used_ms = sums.ended_ms FROM (
    SELECT key_id, sum(cost_nano) AS cost_nano,
        max(ended_ms) FILTER (WHERE state = 'posted') AS ended_ms
    FROM requests GROUP BY 1
) AS sums WHERE keys.id = sums.key_id;

INSERT INTO hourly
SELECT account_id, ended_ms / 3600000, model, key_id, count(*) FILTER (WHERE state = 'posted'),
    count(*) FILTER (WHERE state = 'voided'),
    coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cache_write_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0), sum(cost_nano)
FROM requests GROUP BY 1, 2, 3, 4 ORDER BY 2;

INSERT INTO daily
SELECT account_id, ended_ms / 86400000, model, key_id, provider,
    count(*) FILTER (WHERE state = 'posted'), count(*) FILTER (WHERE state = 'voided'),
    coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cache_write_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0), sum(cost_nano),
    count(provider_cost_nano),
    coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0),
    coalesce(sum(provider_cost_nano), 0), 0, 0, 0, 0
FROM requests GROUP BY 1, 2, 3, 4, 5 ORDER BY 2;
