-- Statements of `calls`, but for those that it writes.

-- The days or hours in which calls began: those of the sums, which go by the time of the end; those in
-- which calls began that ended in another hour; and those of pending ones.
--: places
SELECT json_group_array(place) FROM (
    SELECT place FROM (
        SELECT DISTINCT {unit} AS place FROM {table}
        WHERE account_id = :account AND {unit} >= :first AND {unit} <= :last
            AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)
    ) AS summed
    UNION ALL SELECT started_ms / :ms FROM requests
    WHERE account_id = :account AND ended_ms / 3600000 <> started_ms / 3600000
        AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)
        AND started_ms >= :since AND started_ms < :until
    UNION ALL SELECT started_ms / :ms FROM requests
    WHERE account_id = :account AND state = 'pending'
        AND started_ms >= :since AND started_ms < :until
        AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)
) AS places;

-- Corrects the sums, which go by the day of the end, to the days in which calls began.
--: count
SELECT (
    SELECT coalesce(sum(requests + failed), 0) FROM daily
    WHERE account_id = :account AND day >= :first AND day <= :last
        AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)
) + (
    SELECT count(*) FROM requests
    WHERE account_id = :account AND state = 'pending'
        AND started_ms >= :since AND started_ms < :until
        AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)
) + (
    SELECT count(*) FROM requests
    WHERE account_id = :account AND ended_ms / 3600000 <> started_ms / 3600000
        AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)
        AND started_ms >= :since AND started_ms < :until
        AND NOT (ended_ms >= :since AND ended_ms < :until)
) - (
    SELECT count(*) FROM requests
    WHERE account_id = :account AND ended_ms / 3600000 <> started_ms / 3600000
        AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)
        AND ended_ms >= :since AND ended_ms < :until
        AND NOT (started_ms >= :since AND started_ms < :until)
);
