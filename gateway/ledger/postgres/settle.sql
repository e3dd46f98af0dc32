-- Settle requests of one node. The caller has locked their accounts.
--
-- `settled` has what is known at the end of each; `place` is its order. Returned: the ids that were
-- settled, the others with how they had ended before, and what changed.
CREATE OR REPLACE FUNCTION settle_requests(
    node BIGINT, settled JSON, at_ms BIGINT, sent_ms BIGINT
) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    lowest TEXT;
    highest TEXT;
    result JSON;
BEGIN
    SELECT min(id), max(id) INTO lowest, highest
    FROM json_to_recordset(settled) AS one (id TEXT COLLATE "C");
    WITH item AS MATERIALIZED (
        SELECT * FROM json_to_recordset(settled) AS item (
            place BIGINT, id TEXT, state TEXT, provider TEXT, attempts BIGINT, outcome TEXT,
            status BIGINT, input_tokens BIGINT, cached_input_tokens BIGINT,
            cache_write_tokens BIGINT, cache_write_1h_tokens BIGINT, output_tokens BIGINT,
            web_searches BIGINT, cost_nano BIGINT, estimated BIGINT, first_byte_ms BIGINT,
            ended_ago_ms BIGINT, price_rule TEXT, prices BIGINT[], provider_cost_nano BIGINT,
            reported_cost_nano BIGINT
        )
    ), ended AS (
        UPDATE requests SET
            state = item.state, provider = item.provider, attempts = item.attempts,
            outcome = item.outcome, status = item.status, input_tokens = item.input_tokens,
            cached_input_tokens = item.cached_input_tokens,
            cache_write_tokens = item.cache_write_tokens,
            cache_write_1h_tokens = item.cache_write_1h_tokens,
            output_tokens = item.output_tokens, web_searches = item.web_searches,
            cost_nano = item.cost_nano, estimated = item.estimated,
            first_byte_ms = item.first_byte_ms,
            ended_ms = greatest(started_ms, sent_ms - item.ended_ago_ms),
            price_rule = item.price_rule, input_price_nano = item.prices[1],
            output_price_nano = item.prices[2], cached_input_price_nano = item.prices[3],
            cache_write_price_nano = item.prices[4], request_price_nano = item.prices[5],
            cache_write_1h_price_nano = item.prices[6], web_search_price_nano = item.prices[7],
            provider_cost_nano = item.provider_cost_nano,
            reported_cost_nano = item.reported_cost_nano
        FROM item
        WHERE requests.id = item.id AND requests.state = 'pending' AND requests.node_id = node
            AND requests.id BETWEEN lowest AND highest
        RETURNING requests.*, item.place
    ), entered AS (
        INSERT INTO entries (
            account_id, kind, amount_nano, balance_after_nano, request_id, created_ms
        )
        SELECT
            account_id, 'charge', -cost_nano,
            balance_nano - sum(cost_nano) OVER (PARTITION BY account_id ORDER BY place, ended.id),
            ended.id, at_ms
        FROM ended JOIN accounts ON accounts.id = account_id
        WHERE state = 'posted' ORDER BY place, ended.id
    ), charged AS (
        UPDATE accounts SET
            balance_nano = balance_nano - sums.cost_nano, held_nano = held_nano - sums.freed_nano,
            in_flight = in_flight - sums.requests
        FROM (
            SELECT account_id, sum(cost_nano) AS cost_nano, sum(hold_nano) AS freed_nano,
                count(*) AS requests
            FROM ended GROUP BY account_id
        ) AS sums
        WHERE accounts.id = sums.account_id
        RETURNING accounts.id, balance_nano
    ), spent AS (
        UPDATE keys SET
            spent_nano = spent_nano + sums.cost_nano, held_nano = held_nano - sums.freed_nano,
            in_flight = in_flight - sums.requests,
            last_used_ms = greatest(last_used_ms, sums.used_ms)
        FROM (
            SELECT key_id, sum(cost_nano) AS cost_nano, sum(hold_nano) AS freed_nano,
                count(*) AS requests, max(ended_ms) FILTER (WHERE state = 'posted') AS used_ms
            FROM ended GROUP BY key_id
        ) AS sums
        WHERE keys.id = sums.key_id
        RETURNING keys.id, spent_nano
    ), by_hour AS (
        SELECT
            account_id, ended_ms / 3600000 AS hour, model, key_id,
            count(*) FILTER (WHERE state = 'posted') AS requests,
            count(*) FILTER (WHERE state = 'voided') AS failed,
            coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0) AS input_tokens,
            coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0)
            AS cached_input_tokens,
            coalesce(
                sum(cache_write_tokens + cache_write_1h_tokens) FILTER (WHERE state = 'posted'), 0
            ) AS cache_write_tokens,
            coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0) AS output_tokens,
            sum(cost_nano) AS cost_nano
        FROM ended GROUP BY 1, 2, 3, 4
    ), hours AS (
        INSERT INTO hourly SELECT * FROM by_hour
        ON CONFLICT (account_id, hour, model, key_id) DO UPDATE SET
            requests = hourly.requests + excluded.requests,
            failed = hourly.failed + excluded.failed,
            input_tokens = hourly.input_tokens + excluded.input_tokens,
            cached_input_tokens = hourly.cached_input_tokens + excluded.cached_input_tokens,
            cache_write_tokens = hourly.cache_write_tokens + excluded.cache_write_tokens,
            output_tokens = hourly.output_tokens + excluded.output_tokens,
            cost_nano = hourly.cost_nano + excluded.cost_nano
    ), days AS (
        INSERT INTO daily
        SELECT account_id, hour / 24, model, key_id, sum(requests), sum(failed),
            sum(input_tokens), sum(cached_input_tokens), sum(cache_write_tokens),
            sum(output_tokens), sum(cost_nano)
        FROM by_hour GROUP BY 1, 2, 3, 4
        ON CONFLICT (account_id, day, model, key_id) DO UPDATE SET
            requests = daily.requests + excluded.requests,
            failed = daily.failed + excluded.failed,
            input_tokens = daily.input_tokens + excluded.input_tokens,
            cached_input_tokens = daily.cached_input_tokens + excluded.cached_input_tokens,
            cache_write_tokens = daily.cache_write_tokens + excluded.cache_write_tokens,
            output_tokens = daily.output_tokens + excluded.output_tokens,
            cost_nano = daily.cost_nano + excluded.cost_nano
    ), billed AS (
        INSERT INTO daily_costs
        SELECT account_id, ended_ms / 86400000, model, key_id, count(provider_cost_nano),
            coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0),
            coalesce(sum(provider_cost_nano), 0), count(reported_cost_nano),
            coalesce(sum(reported_cost_nano), 0), count(reported_cost_nano - provider_cost_nano),
            coalesce(sum(reported_cost_nano - provider_cost_nano), 0)
        FROM ended
        WHERE provider_cost_nano IS NOT NULL OR reported_cost_nano IS NOT NULL GROUP BY 1, 2, 3, 4
        ON CONFLICT (account_id, day, model, key_id) DO UPDATE SET
            known = daily_costs.known + excluded.known,
            charged_nano = daily_costs.charged_nano + excluded.charged_nano,
            cost_nano = daily_costs.cost_nano + excluded.cost_nano,
            reported = daily_costs.reported + excluded.reported,
            reported_nano = daily_costs.reported_nano + excluded.reported_nano,
            compared = daily_costs.compared + excluded.compared,
            difference_nano = daily_costs.difference_nano + excluded.difference_nano
    )
    SELECT json_build_object(
        'settled', (SELECT coalesce(json_agg(id), '[]') FROM ended),
        'others', (
            SELECT coalesce(json_agg(json_build_array(
                requests.id, requests.state, requests.cost_nano
            )), '[]')
            FROM item JOIN requests ON requests.id = item.id
            WHERE requests.state <> 'pending' AND item.id NOT IN (SELECT id FROM ended)
        ),
        'balances', (SELECT coalesce(json_agg(json_build_array(id, balance_nano)), '[]') FROM charged),
        'spent', (SELECT coalesce(json_agg(json_build_array(id, spent_nano)), '[]') FROM spent),
        'of_budgets', (
            SELECT json_agg(json_build_object(
                'id', budget_id, 'cost_nano', cost_nano, 'hold_nano', hold_nano,
                'ended_ms', ended_ms
            )) FROM ended WHERE budget_id IS NOT NULL
        ),
        'of_rates', (
            SELECT json_agg(json_build_object(
                'account_id', account_id, 'key_id', key_id,
                'more', input_tokens + cached_input_tokens + cache_write_tokens
                + cache_write_1h_tokens + output_tokens - expected_tokens
            )) FROM ended WHERE expected_tokens > 0
        )
    ) INTO result;
    RETURN result;
END
$$;

-- Charge budgets: `charges` are of requests that are settled by now. The sum of a budget belongs to
-- the period of its last charge; in another one it is read anew from the requests.
CREATE OR REPLACE FUNCTION charge_budgets(charges JSON, at_ms BIGINT) RETURNS JSON
LANGUAGE plpgsql AS $$
DECLARE
    result JSON;
BEGIN
    WITH added AS (
        SELECT id, cost_nano, hold_nano, ended_ms
        FROM json_to_recordset(charges) AS charge (
            id BIGINT, cost_nano BIGINT, hold_nano BIGINT, ended_ms BIGINT
        )
    ), current AS (
        SELECT id, first_day(period, at_ms / 86400000) AS first,
            end_period(period, first_day(period, at_ms / 86400000)) AS end_ms
        FROM budgets WHERE id IN (SELECT id FROM added)
    ), sums AS (
        SELECT current.id, first, sum(hold_nano) AS freed_nano, coalesce(sum(cost_nano) FILTER (
            WHERE ended_ms >= first * 86400000 AND ended_ms < end_ms
        ), 0) AS cost_nano, end_ms
        FROM current JOIN added ON added.id = current.id GROUP BY current.id, first, end_ms
    ), changed AS (
        UPDATE budgets SET
            held_nano = budgets.held_nano - sums.freed_nano,
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

-- Replace the expected tokens of rates by those that were used.
CREATE OR REPLACE FUNCTION correct_rates(corrections JSON) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rates SET tokens_full_us = tokens_full_us + more * 60000000 / tokens_limit
    FROM (
        SELECT account_id, of.key_id, sum(more)::bigint AS more
        FROM json_to_recordset(corrections) AS correction (
            account_id BIGINT, key_id TEXT, more BIGINT
        ) CROSS JOIN LATERAL (VALUES (correction.key_id), ('')) AS of (key_id)
        GROUP BY 1, 2
    ) AS sums
    WHERE rates.account_id = sums.account_id AND rates.key_id = sums.key_id AND tokens_limit > 0;
END
$$;

-- Take back the charge of a request whose settlement was withdrawn, but had been committed by a round
-- without an answer: nothing was delivered.
CREATE OR REPLACE FUNCTION withdraw_charge(
    node BIGINT, its_epoch BIGINT, of_account BIGINT, of_request TEXT
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    charged_nano BIGINT;
    after_nano BIGINT;
BEGIN
    PERFORM enter_as(node, its_epoch);
    PERFORM 1 FROM accounts WHERE id = of_account FOR NO KEY UPDATE;
    SELECT cost_nano INTO charged_nano FROM requests
    WHERE id = of_request AND account_id = of_account AND state = 'posted' AND NOT EXISTS (
        SELECT 1 FROM entries WHERE request_id = of_request AND kind = 'correction'
    );
    IF charged_nano > 0 THEN
        UPDATE accounts SET balance_nano = balance_nano + charged_nano
        WHERE id = of_account RETURNING balance_nano INTO after_nano;
        INSERT INTO entries (
            account_id, kind, amount_nano, balance_after_nano, request_id, note, created_ms
        ) VALUES (
            of_account, 'correction', charged_nano, after_nano, of_request,
            'withdrawn: its reply was not delivered', now_ms()
        );
        -- Others know of a balance that is less.
        INSERT INTO changes (kind, id) VALUES ('account', of_account::text);
    END IF;
    RETURN (SELECT balance_nano FROM accounts WHERE id = of_account);
END
$$;

-- Raise the holds of requests that have used more than was expected. The caller has locked their
-- accounts.
CREATE OR REPLACE FUNCTION raise_holds(node BIGINT, raised JSON) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    WITH higher AS MATERIALIZED (
        SELECT requests.id, requests.account_id, requests.key_id, requests.budget_id,
            item.amount_nano - requests.hold_nano AS more_nano
        FROM json_to_recordset(raised) AS item (id TEXT, amount_nano BIGINT)
        JOIN requests ON requests.id = item.id
        WHERE state = 'pending' AND node_id = node AND requests.hold_nano < item.amount_nano
    ), of_requests AS (
        UPDATE requests SET hold_nano = hold_nano + more_nano
        FROM higher WHERE requests.id = higher.id
    ), of_accounts AS (
        UPDATE accounts SET held_nano = held_nano + sums.more_nano
        FROM (SELECT account_id, sum(more_nano) AS more_nano FROM higher GROUP BY 1) AS sums
        WHERE accounts.id = account_id
    ), of_keys AS (
        UPDATE keys SET held_nano = held_nano + sums.more_nano
        FROM (SELECT key_id, sum(more_nano) AS more_nano FROM higher GROUP BY 1) AS sums
        WHERE keys.id = key_id
    )
    UPDATE budgets SET held_nano = held_nano + sums.more_nano
    FROM (
        SELECT budget_id, sum(more_nano) AS more_nano FROM higher
        WHERE budget_id IS NOT NULL GROUP BY 1
    ) AS sums
    WHERE budgets.id = budget_id;
END
$$;
