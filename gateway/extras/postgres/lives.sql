-- The lives of nodes: each says that it lives, finds those that died, and interrupts what they left.

-- Say that a node lives; return whether that could be written, as somebody may have locked its row.
-- Rounds do not write the row, so that none of them keeps it locked, however long it takes.
CREATE OR REPLACE FUNCTION beat(node BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql
SET lock_timeout = '300ms' AS $$
BEGIN
    UPDATE nodes SET
        steady_at = CASE WHEN seen_at < clock_timestamp() - INTERVAL '2 s'
            THEN clock_timestamp() ELSE steady_at END,
        seen_at = clock_timestamp()
    WHERE id = (
        SELECT id FROM nodes WHERE id = node AND ended_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    );
    RETURN FOUND;
END
$$;

-- Say that a node lives, and return the nodes that it may take over: those that are dead, and those
-- that ended while a stranger had locked accounts of theirs.
--
-- A node that was not seen for half of the silence is suspected. It is dead if it is not seen for
-- the other half either. The suspicion is written into its row, as is that it lives: so a node that
-- cannot write because of a lock is suspected only once the lock is gone, and has time to write then.
-- A node judges others only if it was seen throughout the silence itself.
CREATE OR REPLACE FUNCTION look_around(node BIGINT, its_epoch BIGINT, silence INTERVAL)
RETURNS TABLE (silent_id BIGINT) LANGUAGE plpgsql SET lock_timeout = '300ms' AS $$
BEGIN
    PERFORM check_epoch(node, its_epoch);
    IF NOT beat(node) THEN
        RETURN;
    END IF;
    UPDATE nodes SET suspected_at = clock_timestamp() WHERE id IN (
        SELECT id FROM nodes
        WHERE ended_at IS NULL AND id <> node AND seen_at < clock_timestamp() - silence / 2
            AND (suspected_at IS NULL OR suspected_at < seen_at)
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    );
    RETURN QUERY
        SELECT others.id FROM nodes AS others JOIN nodes AS mine ON mine.id = node
        WHERE (others.has_pending OR is_dead(others, silence)) AND others.id <> node
            AND mine.steady_at < clock_timestamp() - silence
        ORDER BY others.id;
END
$$;

CREATE OR REPLACE FUNCTION is_dead(one nodes, silence INTERVAL) RETURNS BOOLEAN
LANGUAGE sql AS $$
    SELECT one.ended_at IS NULL AND one.seen_at < clock_timestamp() - silence
        AND one.suspected_at >= one.seen_at
        AND one.suspected_at < clock_timestamp() - silence / 2
$$;

-- Interrupt the requests of a node that died; return its process and the number of these requests, or
-- nothing if it lives after all, if a round of it is under way, or if another node is at it.
CREATE OR REPLACE FUNCTION take_over(
    node BIGINT, its_epoch BIGINT, dead_id BIGINT, silence INTERVAL
) RETURNS TABLE (host_name TEXT, process BIGINT, interrupted BIGINT)
LANGUAGE plpgsql SET lock_timeout = '300ms' AS $$
DECLARE
    dead nodes;
BEGIN
    PERFORM enter_as(node, its_epoch);
    -- Nobody waits for a round, which may be stuck. So what is read next is true until the end.
    IF NOT pg_try_advisory_xact_lock(4744, dead_id::int) THEN
        RETURN;
    END IF;
    SELECT * INTO dead FROM nodes
    WHERE id = dead_id AND (has_pending OR is_dead(nodes, silence))
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    host_name := dead.host;
    process := dead.pid;
    interrupted := end_node(dead_id, now_ms());
    RETURN NEXT;
END
$$;

-- Give a node that connected again its next epoch. A round that it sent before and that had no answer
-- is over then: it was committed, or it never will be. One that is stuck is cancelled.
CREATE OR REPLACE FUNCTION renew_epoch(node BIGINT, next_epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM pg_cancel_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid = 4744 AND objid = node::int AND objsubid = 2;
    PERFORM pg_advisory_xact_lock(4744, node::int);
    -- One that was sent before another one and comes behind it changes nothing.
    UPDATE nodes SET epoch = next_epoch WHERE id = node AND ended_at IS NULL AND epoch < next_epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % was taken over', node USING ERRCODE = 'GW001';
    END IF;
END
$$;

-- End a node that stops.
CREATE OR REPLACE FUNCTION leave(node BIGINT, its_epoch BIGINT) RETURNS VOID
LANGUAGE plpgsql SET lock_timeout = '300ms' AS $$
BEGIN
    PERFORM enter_as(node, its_epoch);
    PERFORM end_node(node, now_ms());
END
$$;

-- End a node, and interrupt what it left; what a stranger has locked is left to the next look.
CREATE OR REPLACE FUNCTION end_node(node BIGINT, at_ms BIGINT) RETURNS BIGINT
LANGUAGE plpgsql AS $$
DECLARE
    interrupted BIGINT;
BEGIN
    UPDATE nodes SET epoch = epoch + 1, ended_at = clock_timestamp()
    WHERE id = node AND ended_at IS NULL;
    interrupted := interrupt_requests(node, at_ms);
    UPDATE nodes SET has_pending = EXISTS (
        SELECT 1 FROM requests WHERE state = 'pending' AND node_id = node
    ) WHERE id = node;
    RETURN interrupted;
END
$$;

-- Void what a node left pending: nothing is charged, nothing is held any more. NULL: what was
-- imported as pending. What a stranger has locked stays pending.
CREATE OR REPLACE FUNCTION interrupt_requests(of_node BIGINT, at_ms BIGINT) RETURNS BIGINT
LANGUAGE plpgsql AS $$
DECLARE
    of_account BIGINT;
    locked BIGINT[] := '{}';
    interrupted BIGINT := 0;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4743, 0);
    PERFORM set_config('lock_timeout', '50ms', true);
    FOR of_account IN
        SELECT DISTINCT account_id FROM requests
        WHERE state = 'pending' AND node_id IS NOT DISTINCT FROM of_node ORDER BY 1
    LOOP
        BEGIN
            interrupted := interrupted + interrupt_account(of_account, of_node, at_ms);
        EXCEPTION WHEN lock_not_available THEN
            locked := locked || of_account;
            PERFORM wait_less_after(locked);
        END;
    END LOOP;
    RETURN interrupted;
END
$$;

CREATE OR REPLACE FUNCTION interrupt_account(of_account BIGINT, of_node BIGINT, at_ms BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    interrupted requests[];
BEGIN
    PERFORM 1 FROM accounts WHERE id = of_account FOR NO KEY UPDATE;
    WITH ended AS (
        UPDATE requests SET
            state = 'voided', outcome = 'interrupted', ended_ms = greatest(started_ms, at_ms)
        WHERE state = 'pending' AND node_id IS NOT DISTINCT FROM of_node
            AND account_id = of_account
        RETURNING requests
    )
    SELECT coalesce(array_agg(requests), '{}') INTO interrupted FROM ended;
    UPDATE accounts SET
        held_nano = accounts.held_nano - freed.held_nano,
        unheld_nano = accounts.unheld_nano - freed.unheld_nano,
        in_flight = in_flight - freed.requests
    FROM (
        SELECT sum(hold_nano) AS held_nano, sum(unheld_nano) AS unheld_nano, count(*) AS requests
        FROM unnest(interrupted)
    ) AS freed
    WHERE accounts.id = of_account AND freed.requests > 0;
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
