-- Return why one more request exceeds the rates of a key or an account; NULL if it fits. `terms` are
-- requests and tokens per minute, and requests at once; 0 is no limit. `more` requests with so many
-- tokens were admitted in this batch. A bucket holds the amount of one minute and refills evenly; it is
-- kept as the time at which it will be full, in microseconds. A full one takes any amount.
CREATE OR REPLACE FUNCTION find_rate_refusal(
    owner TEXT, terms BIGINT[], flying BIGINT, requests_us BIGINT, tokens_us BIGINT,
    more BIGINT, more_tokens BIGINT, expected_tokens BIGINT, at_us BIGINT
) RETURNS JSON LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    wait_us BIGINT;
BEGIN
    IF terms[3] > 0 AND flying + more >= terms[3] THEN
        RETURN json_build_array('concurrency', owner, terms[3], 0);
    END IF;
    IF terms[1] > 0 THEN
        wait_us := greatest(requests_us - at_us, 0) + (more + 1) * 60000000 / terms[1] - 60000000;
        IF wait_us > 0 THEN
            RETURN json_build_array('requests', owner, terms[1], wait_us);
        END IF;
    END IF;
    IF terms[2] > 0 THEN
        wait_us := greatest(tokens_us - at_us, 0) - 60000000
            + (more_tokens + least(expected_tokens, terms[2])) * 60000000 / terms[2];
        IF wait_us > 0 THEN
            RETURN json_build_array('tokens', owner, terms[2], wait_us);
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- Write the requests that were admitted, what they hold, and their use of rates. A limit that
-- changed counts anew.
CREATE OR REPLACE FUNCTION write_admitted(
    node BIGINT, asked JSON, admitted TEXT[], at_us BIGINT, sent_ms BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH item AS MATERIALIZED (
        SELECT * FROM json_to_recordset(asked) AS one (
            id TEXT, place BIGINT, account_id BIGINT, key_id TEXT, budget_id BIGINT, model TEXT,
            provider TEXT, stream BIGINT, hold_nano BIGINT, started_ago_ms BIGINT, prices BIGINT[],
            key_rate BIGINT[], account_rate BIGINT[], expected_tokens BIGINT
        ) WHERE one.id = ANY (admitted)
    ), written AS (
        INSERT INTO requests (
            id, account_id, key_id, budget_id, model, provider, stream, hold_nano, state, outcome,
            started_ms, input_price_nano, output_price_nano, cached_input_price_nano,
            cache_write_price_nano, request_price_nano, cache_write_1h_price_nano,
            web_search_price_nano, node_id, expected_tokens
        )
        SELECT id, account_id, key_id, budget_id, model, provider, stream, hold_nano, 'pending',
            'pending', sent_ms - started_ago_ms, prices[1], prices[2], prices[3], prices[4],
            prices[5], prices[6], prices[7], node,
            CASE WHEN key_rate[2] > 0 OR account_rate[2] > 0 THEN expected_tokens ELSE 0 END
        FROM item
    ), of_accounts AS (
        UPDATE accounts SET
            held_nano = held_nano + sums.hold_nano, in_flight = in_flight + sums.requests
        FROM (
            SELECT account_id, sum(hold_nano) AS hold_nano, count(*) AS requests
            FROM item GROUP BY 1
        ) AS sums
        WHERE accounts.id = account_id
    ), of_keys AS (
        UPDATE keys SET
            held_nano = held_nano + sums.hold_nano, in_flight = in_flight + sums.requests
        FROM (
            SELECT key_id, sum(hold_nano) AS hold_nano, count(*) AS requests FROM item GROUP BY 1
        ) AS sums
        WHERE keys.id = sums.key_id
    ), of_budgets AS (
        UPDATE budgets SET held_nano = held_nano + sums.hold_nano
        FROM (
            SELECT budget_id, sum(hold_nano) AS hold_nano FROM item
            WHERE budget_id IS NOT NULL GROUP BY 1
        ) AS sums
        WHERE budgets.id = budget_id
    )
    INSERT INTO rates AS used
    SELECT account_id, level.key_id,
        max(level.terms[1]), at_us + coalesce(count(*) * 60000000 / nullif(max(level.terms[1]), 0), 0),
        max(level.terms[2]),
        at_us + coalesce(sum(expected_tokens)::bigint * 60000000 / nullif(max(level.terms[2]), 0), 0)
    FROM item
    CROSS JOIN LATERAL (VALUES (item.key_id, key_rate), ('', account_rate)) AS level (key_id, terms)
    WHERE level.terms[1] > 0 OR level.terms[2] > 0
    GROUP BY 1, 2
    ON CONFLICT (account_id, key_id) DO UPDATE SET
        requests_limit = excluded.requests_limit,
        requests_full_us = CASE used.requests_limit WHEN excluded.requests_limit
            THEN greatest(used.requests_full_us - at_us, 0) ELSE 0
        END + excluded.requests_full_us,
        tokens_limit = excluded.tokens_limit,
        tokens_full_us = CASE used.tokens_limit WHEN excluded.tokens_limit
            THEN greatest(used.tokens_full_us - at_us, 0) ELSE 0
        END + excluded.tokens_full_us;
END
$$;

-- Admit requests of one node, each after the one before it. The caller has locked their accounts.
-- One whose account, key or budget the database does not know is neither admitted nor declined.
--
-- Returned: the ids that were admitted, and the others with the reason and what is spent. A request
-- that may have been admitted already (`again`: the answer was lost) is looked up first.
CREATE OR REPLACE FUNCTION admit_requests(
    node BIGINT, asked JSON, at_ms BIGINT, sent_ms BIGINT
) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    item RECORD;
    reason JSON;
    at_us BIGINT := at_ms * 1000;
    fresh TEXT[] := '{}';
    known TEXT[] := '{}';
    declined JSON[] := '{}';
    -- Of the requests admitted so far, by the numbers of accounts, keys and budgets.
    a_count BIGINT[] := '{}';
    a_held BIGINT[] := '{}';
    a_tokens BIGINT[] := '{}';
    k_count BIGINT[] := '{}';
    k_held BIGINT[] := '{}';
    k_tokens BIGINT[] := '{}';
    b_held BIGINT[] := '{}';
    a BIGINT;
    k BIGINT;
    b BIGINT;
BEGIN
    FOR item IN
        SELECT
            one.id, one.again, one.hold_nano, one.expected_tokens,
            dense_rank() OVER (ORDER BY one.account_id) AS of_account,
            dense_rank() OVER (ORDER BY one.key_id) AS of_key,
            dense_rank() OVER (ORDER BY one.budget_id) AS of_budget,
            accounts.balance_nano, accounts.held_nano AS account_held_nano,
            accounts.in_flight AS account_flying, one.account_rate,
            CASE of_accounts.requests_limit WHEN one.account_rate[1]
                THEN of_accounts.requests_full_us END AS account_requests_us,
            CASE of_accounts.tokens_limit WHEN one.account_rate[2]
                THEN of_accounts.tokens_full_us END AS account_tokens_us,
            keys.cap_nano - keys.spent_nano AS key_left_nano, keys.spent_nano AS key_spent_nano,
            keys.held_nano AS key_held_nano, keys.in_flight AS key_flying, one.key_rate,
            CASE of_keys.requests_limit WHEN one.key_rate[1]
                THEN of_keys.requests_full_us END AS key_requests_us,
            CASE of_keys.tokens_limit WHEN one.key_rate[2]
                THEN of_keys.tokens_full_us END AS key_tokens_us,
            budgets.amount_nano - period.spent_nano AS budget_left_nano,
            CASE WHEN budgets.id IS NOT NULL
                THEN json_build_array(period.first, period.spent_nano) END AS budget_spent,
            budgets.held_nano AS budget_held_nano
        FROM json_to_recordset(asked) AS one (
            id TEXT, place BIGINT, again BOOLEAN, account_id BIGINT, key_id TEXT,
            budget_id BIGINT, hold_nano BIGINT, key_rate BIGINT[], account_rate BIGINT[],
            expected_tokens BIGINT
        )
        JOIN accounts ON accounts.id = one.account_id
        JOIN keys ON keys.id = one.key_id AND keys.account_id = one.account_id
        LEFT JOIN budgets ON budgets.id = one.budget_id
        CROSS JOIN LATERAL (
            SELECT first, CASE budgets.period_day WHEN first THEN budgets.spent_nano ELSE 0 END
            FROM first_day(budgets.period, at_ms / 86400000) AS first
        ) AS period (first, spent_nano)
        LEFT JOIN rates AS of_accounts
            ON of_accounts.account_id = one.account_id AND of_accounts.key_id = ''
        LEFT JOIN rates AS of_keys
            ON of_keys.account_id = one.account_id AND of_keys.key_id = one.key_id
        WHERE one.budget_id IS NULL OR budgets.id IS NOT NULL
        ORDER BY one.place
    LOOP
        IF item.again AND EXISTS (SELECT 1 FROM requests WHERE requests.id = item.id) THEN
            known := known || item.id;
            CONTINUE;
        END IF;
        a := item.of_account;
        k := item.of_key;
        b := item.of_budget;
        reason := CASE
            WHEN item.balance_nano <= 0 THEN '["balance"]'
            WHEN item.key_left_nano <= 0 THEN '["cap"]'
            WHEN item.budget_left_nano <= 0 THEN '["budget"]'
            WHEN item.balance_nano - item.account_held_nano - coalesce(a_held[a], 0) <= 0
                THEN '["balance held"]'
            WHEN item.key_left_nano - item.key_held_nano - coalesce(k_held[k], 0) <= 0
                THEN '["cap held"]'
            WHEN item.budget_left_nano - item.budget_held_nano - coalesce(b_held[b], 0) <= 0
                THEN '["budget held"]'
            ELSE coalesce(
                find_rate_refusal(
                    'key', item.key_rate, item.key_flying, item.key_requests_us, item.key_tokens_us,
                    coalesce(k_count[k], 0), coalesce(k_tokens[k], 0), item.expected_tokens, at_us
                ),
                find_rate_refusal(
                    'account', item.account_rate, item.account_flying, item.account_requests_us,
                    item.account_tokens_us, coalesce(a_count[a], 0), coalesce(a_tokens[a], 0),
                    item.expected_tokens, at_us
                )
            )
        END;
        IF reason IS NOT NULL THEN
            declined := declined || json_build_array(
                item.id, reason, item.balance_nano, item.key_spent_nano, item.budget_spent
            );
            CONTINUE;
        END IF;
        a_count[a] := coalesce(a_count[a], 0) + 1;
        a_held[a] := coalesce(a_held[a], 0) + item.hold_nano;
        a_tokens[a] := coalesce(a_tokens[a], 0) + item.expected_tokens;
        k_count[k] := coalesce(k_count[k], 0) + 1;
        k_held[k] := coalesce(k_held[k], 0) + item.hold_nano;
        k_tokens[k] := coalesce(k_tokens[k], 0) + item.expected_tokens;
        b_held[b] := coalesce(b_held[b], 0) + item.hold_nano;
        fresh := fresh || item.id;
    END LOOP;
    IF fresh <> '{}' THEN
        PERFORM write_admitted(node, asked, fresh, at_us, sent_ms);
    END IF;
    RETURN json_build_object('admitted', known || fresh, 'declined', to_json(declined));
END
$$;
