-- Whether one request more fits the rates of a key or an account: NULL, or why not and for how long.
-- A bucket holds the amount of one minute and refills evenly; a full one takes any amount.
CREATE OR REPLACE FUNCTION find_rate_refusal(
    of_account BIGINT, of_key TEXT, terms BIGINT[], flying BIGINT, expected_tokens BIGINT,
    at_us BIGINT
) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    used rates%ROWTYPE;
    owner TEXT := CASE of_key WHEN '' THEN 'account' ELSE 'key' END;
    wait_us BIGINT;
BEGIN
    IF terms[3] > 0 AND flying >= terms[3] THEN
        RETURN json_build_array('concurrency', owner, terms[3], 0);
    END IF;
    IF terms[1] = 0 AND terms[2] = 0 THEN
        RETURN NULL;
    END IF;
    SELECT * INTO used FROM rates WHERE account_id = of_account AND key_id = of_key;
    IF terms[1] > 0 AND used.requests_limit = terms[1] THEN
        wait_us := used.requests_full_us + 60000000 / terms[1] - 60000000 - at_us;
        IF wait_us > 0 THEN
            RETURN json_build_array('requests', owner, terms[1], wait_us);
        END IF;
    END IF;
    IF terms[2] > 0 AND used.tokens_limit = terms[2] THEN
        wait_us := greatest(used.tokens_full_us, at_us) - 60000000 - at_us
            + least(expected_tokens, terms[2]) * 60000000 / terms[2];
        IF wait_us > 0 THEN
            RETURN json_build_array('tokens', owner, terms[2], wait_us);
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- Count one request. A limit that changed counts anew.
CREATE OR REPLACE FUNCTION use_rate(
    of_account BIGINT, of_key TEXT, terms BIGINT[], expected_tokens BIGINT, at_us BIGINT
) RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO rates AS used VALUES (
        of_account, of_key,
        terms[1], at_us + CASE terms[1] WHEN 0 THEN 0 ELSE 60000000 / terms[1] END,
        terms[2],
        at_us + CASE terms[2] WHEN 0 THEN 0 ELSE expected_tokens * 60000000 / terms[2] END
    )
    ON CONFLICT (account_id, key_id) DO UPDATE SET
        requests_limit = excluded.requests_limit,
        requests_full_us = CASE used.requests_limit WHEN excluded.requests_limit
            THEN greatest(used.requests_full_us, at_us) - at_us ELSE 0
        END + excluded.requests_full_us,
        tokens_limit = excluded.tokens_limit,
        tokens_full_us = CASE used.tokens_limit WHEN excluded.tokens_limit
            THEN greatest(used.tokens_full_us, at_us) - at_us ELSE 0
        END + excluded.tokens_full_us
$$;

-- Admit requests of one node, each after the one before it. The caller has locked their accounts.
--
-- Returned: the ids that were admitted, and the others with the reason. A request that may have been
-- admitted already (`again`: the answer was lost) is looked up first.
CREATE OR REPLACE FUNCTION admit_requests(
    node BIGINT, asked JSON, at_ms BIGINT, sent_ms BIGINT
) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    item RECORD;
    account accounts%ROWTYPE;
    key keys%ROWTYPE;
    budget budgets%ROWTYPE;
    budget_spent_nano BIGINT;
    reason JSON;
    at_us BIGINT := at_ms * 1000;
    admitted TEXT[] := '{}';
    declined JSON[] := '{}';
BEGIN
    FOR item IN
        SELECT * FROM json_to_recordset(asked) AS item (
            id TEXT, account_id BIGINT, key_id TEXT, budget_id BIGINT, model TEXT, provider TEXT,
            stream BIGINT, hold_nano BIGINT, started_ago_ms BIGINT, prices BIGINT[],
            key_rate BIGINT[], account_rate BIGINT[], expected_tokens BIGINT, again BOOLEAN
        )
    LOOP
        IF item.again AND EXISTS (SELECT 1 FROM requests WHERE requests.id = item.id) THEN
            admitted := admitted || item.id;
            CONTINUE;
        END IF;
        SELECT * INTO account FROM accounts WHERE accounts.id = item.account_id;
        SELECT * INTO key FROM keys WHERE keys.id = item.key_id;
        budget := NULL;
        budget_spent_nano := 0;
        IF item.budget_id IS NOT NULL THEN
            SELECT * INTO budget FROM budgets WHERE budgets.id = item.budget_id;
            IF budget.period_day = first_day(budget.period, at_ms / 86400000) THEN
                budget_spent_nano := budget.spent_nano;
            END IF;
        END IF;
        reason := CASE
            WHEN account.balance_nano <= 0 THEN '["balance"]'
            WHEN key.spent_nano >= key.cap_nano THEN '["cap"]'
            WHEN budget_spent_nano >= budget.amount_nano THEN '["budget"]'
            WHEN account.balance_nano - account.held_nano <= 0 THEN '["balance held"]'
            WHEN key.spent_nano + key.held_nano >= key.cap_nano THEN '["cap held"]'
            WHEN budget_spent_nano + budget.held_nano >= budget.amount_nano
                THEN '["budget held"]'
            ELSE coalesce(
                find_rate_refusal(item.account_id, item.key_id, item.key_rate, key.in_flight,
                    item.expected_tokens, at_us),
                find_rate_refusal(item.account_id, '', item.account_rate, account.in_flight,
                    item.expected_tokens, at_us)
            )
        END;
        IF reason IS NOT NULL THEN
            declined := declined || json_build_array(item.id, reason);
            CONTINUE;
        END IF;
        INSERT INTO requests (
            id, account_id, key_id, budget_id, model, provider, stream, hold_nano, state, outcome,
            started_ms, input_price_nano, output_price_nano, cached_input_price_nano,
            cache_write_price_nano, request_price_nano, cache_write_1h_price_nano,
            web_search_price_nano, node_id, expected_tokens
        ) VALUES (
            item.id, item.account_id, item.key_id, item.budget_id, item.model, item.provider,
            item.stream, item.hold_nano, 'pending', 'pending', sent_ms - item.started_ago_ms, item.prices[1],
            item.prices[2], item.prices[3], item.prices[4], item.prices[5], item.prices[6],
            item.prices[7], node,
            CASE WHEN item.key_rate[2] > 0 OR item.account_rate[2] > 0
                THEN item.expected_tokens ELSE 0 END
        );
        UPDATE accounts SET held_nano = held_nano + item.hold_nano, in_flight = in_flight + 1
        WHERE accounts.id = item.account_id;
        UPDATE keys SET held_nano = held_nano + item.hold_nano, in_flight = in_flight + 1
        WHERE keys.id = item.key_id;
        IF item.budget_id IS NOT NULL THEN
            UPDATE budgets SET held_nano = held_nano + item.hold_nano
            WHERE budgets.id = item.budget_id;
        END IF;
        IF item.key_rate[1] > 0 OR item.key_rate[2] > 0 THEN
            PERFORM use_rate(item.account_id, item.key_id, item.key_rate, item.expected_tokens, at_us);
        END IF;
        IF item.account_rate[1] > 0 OR item.account_rate[2] > 0 THEN
            PERFORM use_rate(item.account_id, '', item.account_rate, item.expected_tokens, at_us);
        END IF;
        admitted := admitted || item.id;
    END LOOP;
    RETURN json_build_object('admitted', admitted, 'declined', to_json(declined));
END
$$;
