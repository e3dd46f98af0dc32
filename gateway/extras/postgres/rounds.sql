-- Write prices, before the rounds that have requests at them: in a round that is stuck they would be
-- in the way of others, whose requests are at the same prices.
CREATE OR REPLACE FUNCTION add_prices(new_prices JSON) RETURNS VOID LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
BEGIN
    INSERT INTO prices
    SELECT id, price FROM json_to_recordset(new_prices) AS one (id BIGINT, price TEXT)
    ORDER BY id  -- two nodes must not wait for each other
    ON CONFLICT DO NOTHING;
END
$$;

-- One round of a node: its settlements, holds that it raises, then its admissions, in one transaction.
--
-- Locks are always taken in this order, so no two transactions wait for each other: the books (shared;
-- a change of the operator takes it alone), the node, the accounts by id.
-- All times are the database's. A node says how long ago its requests began and ended, so that its own
-- clock may be wrong.
--
-- Rounds of others take milliseconds, so a lock that lasts is a stranger's. The node calls
-- `run_round_apart` then, which leaves out what is locked.
CREATE OR REPLACE FUNCTION run_round(
    node BIGINT, its_epoch BIGINT, settled JSON, raised JSON, asked JSON
) RETURNS JSON LANGUAGE plpgsql
-- To plan each statement for its values takes as long as to run it.
SET plan_cache_mode = force_generic_plan
SET lock_timeout = '200ms' AS $$
BEGIN
    PERFORM enter_as(node, its_epoch);
    RETURN carry_out(node, settled, raised, asked);
END
$$;

-- The same, account by account. One of which a stranger has locked a row (the account's own, or one of
-- its keys, budgets, requests, rates or sums) is left out and named in `locked`.
CREATE OR REPLACE FUNCTION run_round_apart(
    node BIGINT, its_epoch BIGINT, settled JSON, raised JSON, asked JSON
) RETURNS JSON LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
-- All accounts wait while one is tried. Rounds of other nodes end within this time.
SET lock_timeout = '50ms' AS $$
DECLARE
    of_account BIGINT;
    parts JSON[] := '{}';
    locked BIGINT[] := '{}';
BEGIN
    PERFORM enter_as(node, its_epoch);
    FOR of_account IN SELECT * FROM list_accounts(settled, raised, asked) ORDER BY 1 LOOP
        BEGIN
            parts := parts || carry_out(
                node, choose_items(settled, of_account), choose_items(raised, of_account),
                choose_items(asked, of_account)
            );
        EXCEPTION WHEN lock_not_available THEN
            locked := locked || of_account;
            PERFORM wait_less_after(locked);
        END;
    END LOOP;
    RETURN json_build_object('parts', to_json(parts), 'locked', locked);
END
$$;

CREATE OR REPLACE FUNCTION list_accounts(settled JSON, raised JSON, asked JSON)
RETURNS SETOF BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT account_id FROM json_to_recordset(settled) AS one (account_id BIGINT)
    UNION SELECT account_id FROM json_to_recordset(raised) AS one (account_id BIGINT)
    UNION SELECT account_id FROM json_to_recordset(asked) AS one (account_id BIGINT)
$$;

CREATE OR REPLACE FUNCTION choose_items(items JSON, of_account BIGINT) RETURNS JSON
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(json_agg(one), '[]') FROM json_array_elements(items) AS one
    WHERE (one ->> 'account_id')::bigint = of_account
$$;

-- Wait for no more locks in this transaction once some lasted: a stranger has many.
CREATE OR REPLACE FUNCTION wait_less_after(locked BIGINT[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(locked) >= 4 THEN
        PERFORM set_config('lock_timeout', '1ms', true);
    END IF;
END
$$;

-- Lock the accounts of a round; settle, raise and admit.
CREATE OR REPLACE FUNCTION carry_out(
    node BIGINT, settled JSON, raised JSON, asked JSON
) RETURNS JSON LANGUAGE plpgsql AS $$
DECLARE
    done JSON;
    admitted JSON;
    at_ms BIGINT;
    sent_at_ms BIGINT := sent_ms();
BEGIN
    PERFORM 1 FROM accounts WHERE id IN (
        SELECT account_id FROM json_to_recordset(settled) AS one (account_id BIGINT)
        UNION SELECT account_id FROM json_to_recordset(raised) AS one (account_id BIGINT)
        UNION SELECT account_id FROM json_to_recordset(asked) AS one (account_id BIGINT)
    ) ORDER BY id FOR NO KEY UPDATE;
    at_ms := now_ms();  -- behind the locks, for which it may have waited
    IF json_array_length(settled) > 0 THEN
        done := settle_requests(node, settled, at_ms, sent_at_ms);
    END IF;
    IF json_array_length(raised) > 0 THEN
        PERFORM raise_holds(node, raised);
    END IF;
    IF json_array_length(asked) > 0 THEN
        admitted := admit_requests(node, asked, at_ms, sent_at_ms);
    END IF;
    RETURN json_build_object('done', done, 'admitted', admitted);
END
$$;

-- Take the locks of a node that acts. Raises an error of the class GW if another node has taken its
-- requests over, or if a change keeps the books.
CREATE OR REPLACE FUNCTION enter_as(node BIGINT, its_epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    -- Another level would decide by what was true before the locks were taken.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'set default_transaction_isolation = ''read committed'''
        USING ERRCODE = 'GW002';
    END IF;
    IF NOT (
        pg_try_advisory_xact_lock_shared(4743, 0)
        AND pg_try_advisory_xact_lock_shared(4744, node::int)
    ) THEN
        PERFORM wait_to_enter(node);
    END IF;
    PERFORM check_epoch(node, its_epoch);
END
$$;

-- A change of the books is short, but it may be longer than a row is waited for.
CREATE OR REPLACE FUNCTION wait_to_enter(node BIGINT) RETURNS VOID LANGUAGE plpgsql
SET lock_timeout = '2s' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4743, 0);
    PERFORM pg_advisory_xact_lock_shared(4744, node::int);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'a change of the books has kept them for 2 s' USING ERRCODE = 'GW003';
END
$$;

CREATE OR REPLACE FUNCTION check_epoch(node BIGINT, its_epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM nodes WHERE id = node AND epoch = its_epoch AND ended_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % was taken over', node USING ERRCODE = 'GW001';
    END IF;
END
$$;
