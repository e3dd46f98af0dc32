-- One round of a node: its settlements, holds that it raises, then its admissions, in one transaction.
--
-- Locks are always taken in this order, so no two transactions wait for each other: the books (shared;
-- a change of the operator takes it alone), the node, the accounts by id.
-- `its_time_ms` is the time of a test; all others have the database's. A node says how long ago its
-- requests began and ended, so that its own clock may be wrong.
CREATE OR REPLACE FUNCTION run_round(
    node BIGINT, its_epoch BIGINT, settled JSON, raised JSON, asked JSON, new_prices JSON,
    its_time_ms BIGINT
) RETURNS JSON LANGUAGE plpgsql
-- To plan each statement for its values takes as long as to run it.
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    done JSON;
    admitted JSON;
    at_ms BIGINT;
    sent_ms BIGINT := coalesce(
        its_time_ms, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
    );
BEGIN
    PERFORM enter_as(node, its_epoch);
    PERFORM 1 FROM accounts WHERE id IN (
        SELECT account_id FROM json_to_recordset(settled) AS one (account_id BIGINT)
        UNION SELECT account_id FROM json_to_recordset(raised) AS one (account_id BIGINT)
        UNION SELECT account_id FROM json_to_recordset(asked) AS one (account_id BIGINT)
    ) ORDER BY id FOR NO KEY UPDATE;
    at_ms := coalesce(its_time_ms, now_ms());
    IF json_array_length(new_prices) > 0 THEN
        INSERT INTO prices
        SELECT id, price FROM json_to_recordset(new_prices) AS one (id BIGINT, price TEXT)
        ORDER BY id  -- rounds of two nodes must not wait for each other
        ON CONFLICT DO NOTHING;
    END IF;
    IF json_array_length(settled) > 0 THEN
        done := settle_requests(node, settled, at_ms, sent_ms);
    END IF;
    IF json_array_length(raised) > 0 THEN
        PERFORM raise_holds(node, raised);
    END IF;
    IF json_array_length(asked) > 0 THEN
        admitted := admit_requests(node, asked, at_ms, sent_ms);
    END IF;
    RETURN json_build_object('done', done, 'admitted', admitted);
END
$$;

-- Take the locks of a node that acts, and say that it lives. Raises an error of the class GW if
-- another node has taken its requests over.
CREATE OR REPLACE FUNCTION enter_as(node BIGINT, its_epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    last_seen_at TIMESTAMPTZ;
BEGIN
    -- Another level would decide by what was true before the locks were taken.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'set default_transaction_isolation = ''read committed'''
        USING ERRCODE = 'GW002';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(4743, 0);
    PERFORM pg_advisory_xact_lock_shared(4744, node::int);
    SELECT seen_at INTO last_seen_at FROM nodes
    WHERE id = node AND epoch = its_epoch AND ended_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % was taken over', node USING ERRCODE = 'GW001';
    END IF;
    IF last_seen_at < clock_timestamp() - INTERVAL '0.5 s' THEN
        UPDATE nodes SET
            steady_at = CASE WHEN seen_at < clock_timestamp() - INTERVAL '2 s'
                THEN clock_timestamp() ELSE steady_at END,
            seen_at = clock_timestamp()
        WHERE id = node;
    END IF;
END
$$;

-- Give a node that connected again its next epoch. A round that it sent before and that had no answer
-- is over then: it was committed, or it never will be.
CREATE OR REPLACE FUNCTION renew_epoch(node BIGINT, next_epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '4s', true);
    PERFORM pg_advisory_xact_lock(4744, node::int);
    -- One that was sent before another one and comes behind it changes nothing.
    UPDATE nodes SET epoch = next_epoch WHERE id = node AND ended_at IS NULL AND epoch < next_epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % was taken over', node USING ERRCODE = 'GW001';
    END IF;
END
$$;

-- Interrupt the requests of nodes that died; return each of these nodes with the number of its
-- requests. A node is dead if it was not seen for some seconds in which this one was seen throughout.
CREATE OR REPLACE FUNCTION take_over(
    node BIGINT, its_epoch BIGINT, silence INTERVAL, its_time_ms BIGINT
) RETURNS TABLE (dead_id BIGINT, host_name TEXT, process BIGINT, interrupted BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    silent BIGINT[];
BEGIN
    PERFORM enter_as(node, its_epoch);
    IF NOT pg_try_advisory_xact_lock(4745, 0) THEN
        RETURN;
    END IF;
    SELECT array_agg(id ORDER BY id) INTO silent FROM nodes
    WHERE ended_at IS NULL AND id <> node AND seen_at < clock_timestamp() - silence
        AND (SELECT steady_at FROM nodes AS mine WHERE mine.id = node)
            < clock_timestamp() - silence;
    -- In the order of all rounds, however many nodes there are: one that was only slow may have a round.
    FOREACH dead_id IN ARRAY coalesce(silent, '{}') LOOP
        PERFORM pg_advisory_xact_lock(4744, dead_id::int);
    END LOOP;
    PERFORM 1 FROM accounts WHERE id IN (
        SELECT account_id FROM requests WHERE state = 'pending' AND node_id = ANY (silent)
    ) ORDER BY id FOR NO KEY UPDATE;
    FOR dead_id, host_name, process IN
        SELECT id, host, pid FROM nodes WHERE id = ANY (silent) ORDER BY id
    LOOP
        UPDATE nodes SET epoch = epoch + 1, ended_at = clock_timestamp()
        WHERE id = dead_id AND ended_at IS NULL AND seen_at < clock_timestamp() - silence;
        IF FOUND THEN
            interrupted := interrupt_requests(dead_id, coalesce(its_time_ms, now_ms()));
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- Void what a node left pending: nothing is charged, nothing is held any more. NULL: what was
-- imported as pending.
CREATE OR REPLACE FUNCTION interrupt_requests(of_node BIGINT, at_ms BIGINT) RETURNS BIGINT
LANGUAGE plpgsql AS $$
DECLARE
    interrupted requests[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4743, 0);
    PERFORM 1 FROM accounts WHERE id IN (
        SELECT account_id FROM requests
        WHERE state = 'pending' AND node_id IS NOT DISTINCT FROM of_node
    ) ORDER BY id FOR NO KEY UPDATE;
    WITH ended AS (
        UPDATE requests SET
            state = 'voided', outcome = 'interrupted', ended_ms = greatest(started_ms, at_ms)
        WHERE state = 'pending' AND node_id IS NOT DISTINCT FROM of_node
        RETURNING requests
    )
    SELECT coalesce(array_agg(requests), '{}') INTO interrupted FROM ended;
    UPDATE accounts SET
        held_nano = accounts.held_nano - freed.held_nano,
        unheld_nano = accounts.unheld_nano - freed.unheld_nano,
        in_flight = in_flight - freed.requests
    FROM (
        SELECT account_id, sum(hold_nano) AS held_nano, sum(unheld_nano) AS unheld_nano,
            count(*) AS requests
        FROM unnest(interrupted) GROUP BY 1
    ) AS freed
    WHERE accounts.id = account_id;
    UPDATE keys SET in_flight = in_flight - freed.requests
    FROM (
        SELECT key_id, count(*) AS requests FROM unnest(interrupted) GROUP BY 1
    ) AS freed
    WHERE keys.id = key_id;
    UPDATE keys SET
        held_nano = keys.held_nano - freed.held_nano,
        unheld_nano = keys.unheld_nano - freed.unheld_nano
    FROM (
        SELECT origin_id, sum(hold_nano) AS held_nano, sum(one.unheld_nano) AS unheld_nano
        FROM unnest(interrupted) AS one JOIN keys AS used ON used.id = one.key_id GROUP BY 1
    ) AS freed
    WHERE keys.id = freed.origin_id;
    UPDATE budgets SET
        held_nano = budgets.held_nano - freed.held_nano,
        unheld_nano = budgets.unheld_nano - freed.unheld_nano
    FROM (
        SELECT budget_id, sum(hold_nano) AS held_nano, sum(unheld_nano) AS unheld_nano
        FROM unnest(interrupted)
        WHERE budget_id IS NOT NULL GROUP BY 1
    ) AS freed
    WHERE budgets.id = budget_id;
    PERFORM add_to_sums(interrupted);
    RETURN cardinality(interrupted);
END
$$;

-- End a node that stops.
CREATE OR REPLACE FUNCTION leave(node BIGINT, its_epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM enter_as(node, its_epoch);
    PERFORM interrupt_requests(node, now_ms());
    UPDATE nodes SET epoch = epoch + 1, ended_at = clock_timestamp() WHERE id = node;
END
$$;
