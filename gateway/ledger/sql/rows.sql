-- Statements of `rows`.

--: corrections
SELECT amount_nano, note, created_ms
FROM entries WHERE kind = 'correction' AND request_id = :id ORDER BY id;

-- Voided requests are among them, at a cost of 0: so the index alone is read.
--: sum of a budget
SELECT coalesce(sum(cost_nano), 0) FROM requests
WHERE budget_id = ? AND ended_ms >= ? AND ended_ms < ?;

--: spent
SELECT
    coalesce(sum(cost_nano) FILTER (WHERE day >= :today), 0),
    coalesce(sum(cost_nano) FILTER (WHERE day > :today - 7), 0),
    coalesce(sum(cost_nano), 0)
FROM {daily} WHERE account_id = :account AND day > :today - 30 AND key_id = :key;
