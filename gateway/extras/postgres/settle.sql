-- End the pending requests of one node: `settled` has what is known at the end of each. Returned: the
-- requests that were ended, in the order of their `place`.
CREATE OR REPLACE FUNCTION end_requests(node BIGINT, settled JSON, sent_ms BIGINT)
RETURNS requests[] LANGUAGE plpgsql AS $$
DECLARE
    lowest TEXT;
    highest TEXT;
    result requests[];
BEGIN
    -- Only the months of these ids are looked at.
    SELECT min(id), max(id) INTO lowest, highest
    FROM json_to_recordset(settled) AS one (id TEXT COLLATE "C");
    WITH ended AS (
        UPDATE requests SET
            state = item.state, provider = item.provider, attempts = item.attempts,
            outcome = item.outcome, status = item.status, input_tokens = item.input_tokens,
            cached_input_tokens = item.cached_input_tokens,
            cache_write_tokens = item.cache_write_tokens,
            cache_write_1h_tokens = item.cache_write_1h_tokens,
            output_tokens = item.output_tokens, extras = item.extras, price_id = item.price_id,
            cost_nano = item.cost_nano, estimated = item.estimated,
            first_byte_ms = item.first_byte_ms,
            ended_ms = greatest(started_ms, sent_ms - item.ended_ago_ms),
            provider_cost_nano = item.provider_cost_nano,
            reported_cost_nano = item.reported_cost_nano
        FROM json_to_recordset(settled) AS item (
            place BIGINT, id TEXT, state TEXT, provider TEXT, attempts BIGINT, outcome TEXT,
            status BIGINT, input_tokens BIGINT, cached_input_tokens BIGINT,
            cache_write_tokens BIGINT, cache_write_1h_tokens BIGINT, output_tokens BIGINT,
            extras TEXT, cost_nano BIGINT, estimated BIGINT, first_byte_ms BIGINT,
            ended_ago_ms BIGINT, price_id BIGINT, provider_cost_nano BIGINT,
            reported_cost_nano BIGINT
        )
        WHERE requests.id = item.id AND requests.state = 'pending' AND requests.node_id = node
            AND requests.id BETWEEN lowest AND highest
        RETURNING requests, place
    )
    SELECT array_agg(requests ORDER BY place) INTO result FROM ended;
    RETURN coalesce(result, '{}');
END
$$;

-- Write what requests made of their accounts, and of their keys.
CREATE OR REPLACE FUNCTION write_accounts(changed accounts[]) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    account accounts;
BEGIN
    FOREACH account IN ARRAY changed LOOP
        UPDATE accounts SET
            balance_nano = account.balance_nano, held_nano = account.held_nano,
            unheld_nano = account.unheld_nano, in_flight = account.in_flight
        WHERE id = account.id;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION write_keys(changed keys[]) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    key keys;
BEGIN
    FOREACH key IN ARRAY changed LOOP
        UPDATE keys SET
            spent_nano = key.spent_nano, held_nano = key.held_nano, unheld_nano = key.unheld_nano,
            in_flight = key.in_flight, last_used_ms = key.last_used_ms
        WHERE id = key.id;
    END LOOP;
END
$$;

-- Settle requests of one node. The caller has locked their accounts. Returned: the ids that were
-- settled, the others with how they had ended before, and what was changed.
CREATE OR REPLACE FUNCTION settle_requests(
    node BIGINT, settled JSON, at_ms BIGINT, sent_ms BIGINT
) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    ended requests[] := end_requests(node, settled, sent_ms);
    request requests;
    ids TEXT[] := '{}';
    others JSON := '[]';
    budgets JSON := '[]';
    have_budgets BOOLEAN := false;
    have_rates BOOLEAN := false;
    -- What the requests touch: read when the first one does, written at the end.
    account_ids BIGINT[] := '{}';
    of_accounts accounts[] := '{}';
    key_ids TEXT[] := '{}';
    of_keys keys[] := '{}';
    account accounts;
    key keys;
    origin keys;
    entry entries;
    entered entries[] := '{}';
    a INT;
    k INT;
    o INT;
BEGIN
    FOREACH request IN ARRAY ended LOOP
        a := array_position(account_ids, request.account_id);
        IF a IS NULL THEN
            a := cardinality(account_ids) + 1;
            account_ids[a] := request.account_id;
            SELECT * INTO account FROM accounts WHERE id = request.account_id;
        ELSE
            account := of_accounts[a];
        END IF;
        account.balance_nano := account.balance_nano - request.cost_nano;
        account.held_nano := account.held_nano - request.hold_nano;
        account.unheld_nano := account.unheld_nano - request.unheld_nano;
        account.in_flight := account.in_flight - 1;
        of_accounts[a] := account;
        k := array_position(key_ids, request.key_id);
        IF k IS NULL THEN
            k := cardinality(key_ids) + 1;
            key_ids[k] := request.key_id;
            SELECT * INTO key FROM keys WHERE id = request.key_id;
        ELSE
            key := of_keys[k];
        END IF;
        key.in_flight := key.in_flight - 1;
        IF request.state = 'posted' THEN
            key.last_used_ms := greatest(key.last_used_ms, request.ended_ms);
            entry.account_id := request.account_id;
            entry.amount_nano := -request.cost_nano;
            entry.balance_after_nano := account.balance_nano;
            entry.request_id := request.id;
            entered := entered || entry;
        END IF;
        of_keys[k] := key;
        o := array_position(key_ids, key.origin_id);
        IF o IS NULL THEN
            o := cardinality(key_ids) + 1;
            key_ids[o] := key.origin_id;
            SELECT * INTO origin FROM keys WHERE id = key.origin_id;
        ELSE
            origin := of_keys[o];
        END IF;
        origin.spent_nano := origin.spent_nano + request.cost_nano;
        origin.held_nano := origin.held_nano - request.hold_nano;
        origin.unheld_nano := origin.unheld_nano - request.unheld_nano;
        of_keys[o] := origin;
        have_budgets := have_budgets OR request.budget_id IS NOT NULL;
        have_rates := have_rates OR request.expected_tokens > 0;
        ids := ids || request.id;
    END LOOP;
    INSERT INTO entries (
        account_id, kind, amount_nano, balance_after_nano, request_id, created_ms
    )
    SELECT account_id, 'charge', amount_nano, balance_after_nano, request_id, at_ms
    FROM unnest(entered);
    PERFORM write_accounts(of_accounts), write_keys(of_keys), add_to_sums(ended);
    IF have_budgets THEN
        budgets := charge_budgets(ended, at_ms);
    END IF;
    IF have_rates THEN
        PERFORM correct_rates(ended);
    END IF;
    IF cardinality(ids) < json_array_length(settled) THEN
        SELECT coalesce(json_agg(json_build_array(requests.id, state, cost_nano)), '[]')
        INTO others
        FROM json_to_recordset(settled) AS item (id TEXT) JOIN requests ON requests.id = item.id
        WHERE state <> 'pending' AND item.id <> ALL (ids);
    END IF;
    RETURN json_build_object(
        'settled', ids, 'others', others, 'budgets', budgets,
        'balances', ARRAY(
            SELECT json_build_array(id, balance_nano) FROM unnest(of_accounts) WHERE id IS NOT NULL
        ),
        'spent', ARRAY(
            SELECT json_build_array(id, spent_nano) FROM unnest(of_keys) WHERE id IS NOT NULL
        )
    );
END
$$;

-- Take back the charge of a request whose settlement was withdrawn, but had been committed by a round
-- without an answer: nothing was delivered.
CREATE OR REPLACE FUNCTION withdraw_charge(
    node BIGINT, its_epoch BIGINT, of_account BIGINT, of_request TEXT
) RETURNS BIGINT LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
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
            item.amount_nano - requests.hold_nano AS more_nano,
            least(item.amount_nano - requests.hold_nano, requests.unheld_nano) AS less_nano
        FROM json_to_recordset(raised) AS item (id TEXT, amount_nano BIGINT)
        JOIN requests ON requests.id = item.id
        WHERE state = 'pending' AND node_id = node AND requests.hold_nano < item.amount_nano
    ), of_requests AS (
        UPDATE requests SET
            hold_nano = hold_nano + more_nano, unheld_nano = unheld_nano - less_nano
        FROM higher WHERE requests.id = higher.id
    ), of_accounts AS (
        UPDATE accounts SET
            held_nano = held_nano + sums.more_nano, unheld_nano = unheld_nano - sums.less_nano
        FROM (
            SELECT account_id, sum(more_nano) AS more_nano, sum(less_nano) AS less_nano
            FROM higher GROUP BY 1
        ) AS sums
        WHERE accounts.id = account_id
    ), of_keys AS (
        UPDATE keys SET
            held_nano = held_nano + sums.more_nano, unheld_nano = unheld_nano - sums.less_nano
        FROM (
            SELECT origin_id, sum(more_nano) AS more_nano, sum(less_nano) AS less_nano
            FROM higher JOIN keys AS used ON used.id = key_id GROUP BY 1
        ) AS sums
        WHERE keys.id = sums.origin_id
    )
    UPDATE budgets SET
        held_nano = held_nano + sums.more_nano, unheld_nano = unheld_nano - sums.less_nano
    FROM (
        SELECT budget_id, sum(more_nano) AS more_nano, sum(less_nano) AS less_nano FROM higher
        WHERE budget_id IS NOT NULL GROUP BY 1
    ) AS sums
    WHERE budgets.id = budget_id;
END
$$;
