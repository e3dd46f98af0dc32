-- Write the requests that were admitted, with the holds that were taken.
CREATE OR REPLACE FUNCTION insert_requests(
    node BIGINT, asked JSON, admitted TEXT[], in_full TEXT[], sent_ms BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO requests (
        id, account_id, key_id, budget_id, model, provider, stream, hold_nano, unheld_nano, state,
        outcome, started_ms, price_id, node_id, expected_tokens
    )
    SELECT id, account_id, key_id, budget_id, model, provider, stream,
        CASE WHEN id = ANY (in_full) THEN full_nano ELSE hold_nano END,
        CASE WHEN id = ANY (in_full) THEN 0 ELSE greatest(full_nano - hold_nano, 0) END, 'pending',
        'pending', sent_ms - started_ago_ms, price_id, node,
        CASE WHEN key_rate[2] > 0 OR account_rate[2] > 0 THEN expected_tokens ELSE 0 END
    FROM json_to_recordset(asked) AS one (
        id TEXT, account_id BIGINT, key_id TEXT, budget_id BIGINT, model TEXT, provider TEXT,
        stream BIGINT, hold_nano BIGINT, full_nano BIGINT, started_ago_ms BIGINT, price_id BIGINT,
        key_rate BIGINT[], account_rate BIGINT[], expected_tokens BIGINT
    ) WHERE id = ANY (admitted);
END
$$;

-- Admit requests of one node, each after the one before it. The caller has locked their accounts.
-- One whose account, key or budget the database does not know is neither admitted nor declined.
--
-- What is left of the balance, the cap and the budget is left if each request in flight costs the most
-- it may. Where that is less than `full_below_nano`, a request holds the most it may cost (`full_nano`).
--
-- Returned: the ids that were admitted, those of them that hold all that they may cost, and the others
-- with the reason and what is spent. A request that may have been admitted already (`again`: the
-- answer was lost) is looked up first.
CREATE OR REPLACE FUNCTION admit_requests(
    node BIGINT, asked JSON, at_ms BIGINT, sent_ms BIGINT
) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    item RECORD;
    reason JSON;
    at_us BIGINT := at_ms * 1000;
    fresh TEXT[] := '{}';
    known TEXT[] := '{}';
    in_full TEXT[] := '{}';
    declined JSON[] := '{}';
    -- What the requests touch: read when the first one does, written at the end. All of it is of
    -- accounts that are locked.
    account_ids BIGINT[] := '{}';
    of_accounts accounts[] := '{}';
    account_rates rates[] := '{}';
    key_ids TEXT[] := '{}';
    of_keys keys[] := '{}';
    rated BOOLEAN[] := '{}';
    key_rates rates[] := '{}';
    budget_ids BIGINT[] := '{}';
    of_budgets budgets[] := '{}';
    account accounts;
    key keys;
    origin keys;
    budget budgets;
    a INT;
    k INT;
    o INT;
    b INT;
    -- No key spends more, so that sums fit; see `MOST_SPENT_NANO`.
    cap_nano BIGINT;
    most_nano BIGINT;
    taken_nano BIGINT;
    untaken_nano BIGINT;
BEGIN
    FOR item IN
        SELECT * FROM json_to_recordset(asked) AS one (
            id TEXT, place BIGINT, again BOOLEAN, account_id BIGINT, key_id TEXT,
            budget_id BIGINT, hold_nano BIGINT, full_nano BIGINT, full_below_nano BIGINT,
            key_rate BIGINT[], account_rate BIGINT[], expected_tokens BIGINT
        ) ORDER BY place
    LOOP
        IF item.again THEN
            SELECT hold_nano INTO taken_nano FROM requests WHERE requests.id = item.id;
            IF FOUND THEN
                known := known || item.id;
                IF taken_nano > item.hold_nano THEN
                    in_full := in_full || item.id;
                END IF;
                CONTINUE;
            END IF;
        END IF;
        a := array_position(account_ids, item.account_id);
        IF a IS NULL THEN
            SELECT * INTO account FROM accounts WHERE id = item.account_id;
            CONTINUE WHEN NOT FOUND;
            a := cardinality(account_ids) + 1;
            account_ids[a] := item.account_id;
            of_accounts[a] := account;
            account_rates[a] := read_rate(item.account_id, '', item.account_rate);
        END IF;
        k := array_position(key_ids, item.key_id);
        IF k IS NULL THEN
            SELECT * INTO key FROM keys
            WHERE id = item.key_id AND account_id = item.account_id;
            CONTINUE WHEN NOT FOUND;
            k := cardinality(key_ids) + 1;
            key_ids[k] := item.key_id;
            of_keys[k] := key;
        END IF;
        key := of_keys[k];
        IF rated[k] IS NULL THEN
            rated[k] := true;
            key_rates[k] := read_rate(item.account_id, item.key_id, item.key_rate);
        END IF;
        o := array_position(key_ids, key.origin_id);
        IF o IS NULL THEN
            SELECT * INTO origin FROM keys WHERE id = key.origin_id;
            o := cardinality(key_ids) + 1;
            key_ids[o] := key.origin_id;
            of_keys[o] := origin;
        END IF;
        b := array_position(budget_ids, item.budget_id);
        IF b IS NULL AND item.budget_id IS NOT NULL THEN
            SELECT * INTO budget FROM budgets
            WHERE id = item.budget_id AND account_id = item.account_id;
            CONTINUE WHEN NOT FOUND;
            b := cardinality(budget_ids) + 1;
            budget_ids[b] := item.budget_id;
            IF budget.period_day <> first_day(budget.period, at_ms / 86400000) THEN
                budget.period_day := first_day(budget.period, at_ms / 86400000);
                budget.spent_nano := 0;
            END IF;
            of_budgets[b] := budget;
        END IF;
        account := of_accounts[a];
        origin := of_keys[o];
        budget := of_budgets[b];
        cap_nano := coalesce(key.cap_nano, 8000000000000000000);
        most_nano := greatest(item.hold_nano, item.full_nano);
        CONTINUE WHEN key.account_id <> account.id OR budget.account_id <> account.id;
        reason := CASE
            WHEN account.balance_nano <= 0 THEN '["balance"]'
            WHEN origin.spent_nano >= cap_nano THEN '["cap"]'
            WHEN budget.spent_nano >= budget.amount_nano THEN '["budget"]'
            WHEN account.balance_nano <= account.held_nano + account.unheld_nano
                THEN '["balance held"]'
            WHEN account.held_nano + account.unheld_nano > 9223372036854775807 - most_nano
                THEN '["balance held"]'
            WHEN origin.held_nano + origin.unheld_nano >= cap_nano - origin.spent_nano
                THEN '["cap held"]'
            WHEN budget.spent_nano + budget.held_nano + budget.unheld_nano >= budget.amount_nano
                THEN '["budget held"]'
            ELSE coalesce(
                find_rate_refusal(
                    'key', item.key_rate, key.in_flight, key_rates[k], item.expected_tokens, at_us
                ),
                find_rate_refusal(
                    'account', item.account_rate, account.in_flight, account_rates[a],
                    item.expected_tokens, at_us
                )
            )
        END;
        IF reason IS NOT NULL THEN
            declined := declined || json_build_array(
                item.id, reason, account.balance_nano, origin.spent_nano, CASE
                    WHEN b > 0 THEN json_build_array(budget.period_day, budget.spent_nano)
                END
            );
            CONTINUE;
        END IF;
        fresh := fresh || item.id;
        taken_nano := item.hold_nano;
        IF most_nano > item.hold_nano AND item.full_below_nano > least(
            account.balance_nano - account.held_nano - account.unheld_nano,
            cap_nano - origin.spent_nano - origin.held_nano - origin.unheld_nano,
            -- NULL without a budget, which `least` ignores.
            budget.amount_nano - budget.spent_nano - budget.held_nano - budget.unheld_nano
        ) THEN
            in_full := in_full || item.id;
            taken_nano := most_nano;
        END IF;
        untaken_nano := most_nano - taken_nano;
        account.held_nano := account.held_nano + taken_nano;
        account.unheld_nano := account.unheld_nano + untaken_nano;
        account.in_flight := account.in_flight + 1;
        of_accounts[a] := account;
        account_rates[a] := use_rate(account_rates[a], item.expected_tokens, at_us);
        origin.held_nano := origin.held_nano + taken_nano;
        origin.unheld_nano := origin.unheld_nano + untaken_nano;
        of_keys[o] := origin;
        key := of_keys[k];  -- which may be the origin
        key.in_flight := key.in_flight + 1;
        of_keys[k] := key;
        key_rates[k] := use_rate(key_rates[k], item.expected_tokens, at_us);
        IF b > 0 THEN
            budget.held_nano := budget.held_nano + taken_nano;
            budget.unheld_nano := budget.unheld_nano + untaken_nano;
            of_budgets[b] := budget;
        END IF;
    END LOOP;
    IF fresh <> '{}' THEN
        PERFORM insert_requests(node, asked, fresh, in_full, sent_ms);
        PERFORM write_accounts(of_accounts);
        PERFORM write_keys(of_keys);
        FOREACH budget IN ARRAY of_budgets LOOP
            UPDATE budgets SET held_nano = budget.held_nano, unheld_nano = budget.unheld_nano
            WHERE id = budget.id;
        END LOOP;
        PERFORM write_rates(account_rates || key_rates);
    END IF;
    RETURN json_build_object(
        'admitted', known || fresh, 'in_full', in_full, 'declined', to_json(declined)
    );
END
$$;
