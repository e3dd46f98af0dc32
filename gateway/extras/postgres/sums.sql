-- Add requests that ended to the sums by hour and by day, with what providers bill for them.
CREATE OR REPLACE FUNCTION add_to_sums(ended requests[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH sums AS (
        SELECT
            account_id, ended_ms / 3600000 AS hour, model, key_id, provider,
            count(*) FILTER (WHERE state = 'posted') AS requests,
            count(*) FILTER (WHERE state = 'voided') AS failed,
            coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0) AS input_tokens,
            coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0)
            AS cached_input_tokens,
            coalesce(
                sum(cache_write_tokens + cache_write_1h_tokens) FILTER (WHERE state = 'posted'), 0
            ) AS cache_write_tokens,
            coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0) AS output_tokens,
            sum(cost_nano) AS cost_nano,
            count(provider_cost_nano) AS known,
            coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0)
            AS charged_nano,
            coalesce(sum(provider_cost_nano), 0) AS provider_cost_nano,
            count(reported_cost_nano) AS reported,
            coalesce(sum(reported_cost_nano), 0) AS reported_nano,
            count(reported_cost_nano - provider_cost_nano) AS compared,
            coalesce(sum(reported_cost_nano - provider_cost_nano), 0) AS difference_nano
        FROM unnest(ended) GROUP BY 1, 2, 3, 4, 5
    ), hours AS (
        INSERT INTO hourly
        SELECT account_id, hour, model, key_id, sum(requests), sum(failed), sum(input_tokens),
            sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens), sum(cost_nano)
        FROM sums GROUP BY 1, 2, 3, 4
        ON CONFLICT (account_id, hour, model, key_id) DO UPDATE SET
            requests = hourly.requests + excluded.requests,
            failed = hourly.failed + excluded.failed,
            input_tokens = hourly.input_tokens + excluded.input_tokens,
            cached_input_tokens = hourly.cached_input_tokens + excluded.cached_input_tokens,
            cache_write_tokens = hourly.cache_write_tokens + excluded.cache_write_tokens,
            output_tokens = hourly.output_tokens + excluded.output_tokens,
            cost_nano = hourly.cost_nano + excluded.cost_nano
    )
    INSERT INTO daily
    SELECT account_id, hour / 24, model, key_id, provider, sum(requests), sum(failed),
        sum(input_tokens), sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens),
        sum(cost_nano), sum(known), sum(charged_nano), sum(provider_cost_nano), sum(reported),
        sum(reported_nano), sum(compared), sum(difference_nano)
    FROM sums GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, day, model, key_id, provider) DO UPDATE SET
        requests = daily.requests + excluded.requests,
        failed = daily.failed + excluded.failed,
        input_tokens = daily.input_tokens + excluded.input_tokens,
        cached_input_tokens = daily.cached_input_tokens + excluded.cached_input_tokens,
        cache_write_tokens = daily.cache_write_tokens + excluded.cache_write_tokens,
        output_tokens = daily.output_tokens + excluded.output_tokens,
        cost_nano = daily.cost_nano + excluded.cost_nano,
        known = daily.known + excluded.known,
        charged_nano = daily.charged_nano + excluded.charged_nano,
        provider_cost_nano = daily.provider_cost_nano + excluded.provider_cost_nano,
        reported = daily.reported + excluded.reported,
        reported_nano = daily.reported_nano + excluded.reported_nano,
        compared = daily.compared + excluded.compared,
        difference_nano = daily.difference_nano + excluded.difference_nano;
END
$$;

-- Charge the budgets of requests that ended. The sum of a budget belongs to the period of its last
-- charge; in another one it is read anew from the requests.
CREATE OR REPLACE FUNCTION charge_budgets(ended requests[], at_ms BIGINT) RETURNS JSON
LANGUAGE plpgsql AS $$
DECLARE
    result JSON;
BEGIN
    WITH added AS (
        SELECT budget_id AS id, cost_nano, hold_nano, unheld_nano, ended_ms
        FROM unnest(ended) WHERE budget_id IS NOT NULL
    ), current AS (
        SELECT id, first_day(period, at_ms / 86400000) AS first,
            end_period(period, first_day(period, at_ms / 86400000)) AS end_ms
        FROM budgets WHERE id IN (SELECT id FROM added)
    ), sums AS (
        SELECT current.id, first, sum(hold_nano) AS freed_nano,
            sum(unheld_nano) AS freed_unheld_nano, coalesce(sum(cost_nano) FILTER (
            WHERE ended_ms >= first * 86400000 AND ended_ms < end_ms
        ), 0) AS cost_nano, end_ms
        FROM current JOIN added ON added.id = current.id GROUP BY current.id, first, end_ms
    ), changed AS (
        UPDATE budgets SET
            held_nano = budgets.held_nano - sums.freed_nano,
            unheld_nano = budgets.unheld_nano - sums.freed_unheld_nano,
            spent_nano = CASE WHEN period_day = first THEN spent_nano + sums.cost_nano ELSE (
                SELECT coalesce(sum(requests.cost_nano), 0) FROM requests
                WHERE budget_id = budgets.id
                    AND ended_ms >= first * 86400000 AND ended_ms < end_ms
            ) END,
            period_day = first
        FROM sums WHERE budgets.id = sums.id
        RETURNING budgets.id, period_day, spent_nano
    )
    SELECT coalesce(json_agg(json_build_array(id, period_day, spent_nano)), '[]') INTO result
    FROM changed;
    RETURN result;
END
$$;
