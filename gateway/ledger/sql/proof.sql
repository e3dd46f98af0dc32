-- Checks of a full audit, behind those of a start. `audit.Check` says how a check is written.

--: request {0}: posted without a charge
SELECT requests.id
FROM requests LEFT JOIN entries
    ON entries.request_id = requests.id AND entries.kind = 'charge'
WHERE requests.state = 'posted' AND entries.id IS NULL;

--: key {0}: spent is {1}, the sum of the hours of its line {2} nano-units
SELECT keys.id, keys.spent_nano, coalesce(sums.cost_nano, 0)
FROM keys LEFT JOIN (
    SELECT used.origin_id, sum(cost_nano) AS cost_nano
    FROM hourly JOIN keys AS used ON used.id = key_id GROUP BY used.origin_id
) AS sums ON sums.origin_id = keys.id
WHERE keys.spent_nano <> coalesce(sums.cost_nano, 0);

-- Of periods whose requests are kept; the function `end_period` is ours.
--: budget {0}: spent is {1}, the sum of its requests in its period {2} nano-units
SELECT id, spent_nano, charged
FROM (
    SELECT id, spent_nano, period_day, coalesce((
        SELECT sum(cost_nano) FROM requests
        WHERE budget_id = budgets.id
            AND ended_ms >= period_day * 86400000 AND ended_ms < end_period(period, period_day)
    ), 0) AS charged
    FROM budgets
) AS summed
WHERE spent_nano <> charged AND period_day * 86400000 >= :kept_from;

--: request {0}: its budget {1} is another account's
SELECT requests.id, budget_id FROM requests JOIN budgets ON budgets.id = budget_id
WHERE requests.account_id <> budgets.account_id;

--: key {0}: it spends from budget {1}, which is another account's
SELECT keys.id, budget_id FROM keys JOIN budgets ON budgets.id = budget_id
WHERE keys.account_id <> budgets.account_id;

--: key {0}: its line began with key {1}, which is another account's
SELECT keys.id, keys.origin_id FROM keys JOIN keys AS origins ON origins.id = keys.origin_id
WHERE keys.account_id <> origins.account_id;

-- Sums that agree are rows that cancel each other out, below. Tokens of each kind are compared by
-- themselves: moved from one kind to another they would cancel out, too.

--: account {0}, hour {1:%Y-%m-%dT%H:%MZ}, model {2}, key {3}: the hour's sums differ from its
--: requests by {4} posted, {5} failed, {6} tokens, {7} nano-units
SELECT coalesce(name, CAST(account_id AS TEXT)), begins_ms, model, key_id, requests, failed,
    tokens, cost_nano
FROM (
    SELECT account_id, begins_ms, model, key_id, sum(requests) AS requests,
        sum(failed) AS failed, abs(sum(input_tokens)) + abs(sum(cached_input_tokens))
        + abs(sum(cache_write_tokens)) + abs(sum(output_tokens)) AS tokens,
        sum(cost_nano) AS cost_nano
    FROM (
        SELECT account_id, hour * 3600000 AS begins_ms, model, key_id, requests, failed,
            input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
        FROM hourly WHERE hour * 3600000 >= :kept_from
        UNION ALL
        SELECT account_id, ended_ms / 3600000 * 3600000, model, key_id,
            CASE state WHEN 'posted' THEN -1 ELSE 0 END,
            CASE state WHEN 'voided' THEN -1 ELSE 0 END,
            CASE state WHEN 'posted' THEN -input_tokens ELSE 0 END,
            CASE state WHEN 'posted' THEN -cached_input_tokens ELSE 0 END,
            CASE state WHEN 'posted' THEN -cache_write_tokens - cache_write_1h_tokens ELSE 0 END,
            CASE state WHEN 'posted' THEN -output_tokens ELSE 0 END,
            -cost_nano
        FROM requests WHERE state <> 'pending' AND ended_ms >= :kept_from
    ) AS differences GROUP BY 1, 2, 3, 4
) AS sums LEFT JOIN accounts ON accounts.id = sums.account_id
WHERE requests <> 0 OR failed <> 0 OR tokens <> 0 OR sums.cost_nano <> 0;

--: account {0}, day {1:%Y-%m-%dT%H:%MZ}, model {2}, key {3}: the day's sums differ from those of its
--: hours by {4} posted, {5} failed, {6} tokens, {7} nano-units
SELECT coalesce(name, CAST(account_id AS TEXT)), begins_ms, model, key_id, requests, failed,
    tokens, cost_nano
FROM (
    SELECT account_id, begins_ms, model, key_id, sum(requests) AS requests,
        sum(failed) AS failed, abs(sum(input_tokens)) + abs(sum(cached_input_tokens))
        + abs(sum(cache_write_tokens)) + abs(sum(output_tokens)) AS tokens,
        sum(cost_nano) AS cost_nano
    FROM (
        SELECT account_id, day * 86400000 AS begins_ms, model, key_id, requests, failed,
            input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
        FROM daily
        UNION ALL
        SELECT account_id, hour / 24 * 86400000, model, key_id, -requests, -failed, -input_tokens,
            -cached_input_tokens, -cache_write_tokens, -output_tokens, -cost_nano
        FROM hourly
    ) AS differences GROUP BY 1, 2, 3, 4
) AS sums LEFT JOIN accounts ON accounts.id = sums.account_id
WHERE requests <> 0 OR failed <> 0 OR tokens <> 0 OR sums.cost_nano <> 0;

--: account {0}, day {1:%Y-%m-%d}, model {2}, key {3}, provider {4}: the day's sums are not those of
--: its requests
SELECT coalesce(name, CAST(account_id AS TEXT)), day * 86400000, model, key_id, provider
FROM (
    SELECT account_id, day, model, key_id, provider
    FROM (
        SELECT account_id, day, model, key_id, provider, requests, failed, input_tokens,
            cached_input_tokens, cache_write_tokens, output_tokens, cost_nano, known, charged_nano,
            provider_cost_nano, reported, reported_nano, compared, difference_nano
        FROM daily WHERE day * 86400000 >= :kept_from
        UNION ALL
        SELECT account_id, ended_ms / 86400000, model, key_id, provider,
            -count(*) FILTER (WHERE state = 'posted'),
            -count(*) FILTER (WHERE state = 'voided'),
            -coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0),
            -coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0),
            -coalesce(
                sum(cache_write_tokens + cache_write_1h_tokens) FILTER (WHERE state = 'posted'), 0
            ),
            -coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0),
            -sum(cost_nano),
            -count(provider_cost_nano),
            -coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0),
            -coalesce(sum(provider_cost_nano), 0),
            -count(reported_cost_nano),
            -coalesce(sum(reported_cost_nano), 0),
            -count(reported_cost_nano - provider_cost_nano),
            -coalesce(sum(reported_cost_nano - provider_cost_nano), 0)
        FROM requests WHERE state <> 'pending' AND ended_ms >= :kept_from
        GROUP BY 1, 2, 3, 4, 5
    ) AS differences
    GROUP BY account_id, day, model, key_id, provider
    HAVING sum(requests) <> 0 OR sum(failed) <> 0 OR sum(input_tokens) <> 0
        OR sum(cached_input_tokens) <> 0 OR sum(cache_write_tokens) <> 0 OR sum(output_tokens) <> 0
        OR sum(cost_nano) <> 0 OR sum(known) <> 0 OR sum(charged_nano) <> 0
        OR sum(provider_cost_nano) <> 0 OR sum(reported) <> 0 OR sum(reported_nano) <> 0
        OR sum(compared) <> 0 OR sum(difference_nano) <> 0
) AS wrong LEFT JOIN accounts ON accounts.id = account_id;
