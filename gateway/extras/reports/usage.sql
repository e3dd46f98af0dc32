-- Statements of `usage`, but for those that it writes. Amounts are summed in two parts, see
-- `database.PART`.

--: names
SELECT json_group_array(json_array(id, name)) FROM accounts
WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids));

--: labels
SELECT json_group_array(json_array(id, name, last4)) FROM keys
WHERE id IN (SELECT CAST(value AS TEXT) FROM json_each(:ids));

--: expiring
SELECT id, name, last4, expires_ms FROM keys
WHERE account_id = :account AND revoked_ms IS NULL AND replaced_by IS NULL
    AND expires_ms > :now AND expires_ms <= :soon
ORDER BY expires_ms, id;

--: failed
SELECT json_group_array(json_array(day, failed)) FROM (
    SELECT day, sum(failed) AS failed FROM daily_totals WHERE day >= ? GROUP BY day
) AS sums;

-- What is no charge: all of it, and of it the credit that was sold or given.
--: moved
SELECT created_ms / 86400000, sum(amount_nano / 1000000000), sum(amount_nano % 1000000000),
    coalesce(sum(amount_nano / 1000000000) FILTER (WHERE kind <> 'correction'), 0),
    coalesce(sum(amount_nano % 1000000000) FILTER (WHERE kind <> 'correction'), 0)
FROM entries
WHERE kind <> 'charge' AND kind IN ('credit', 'code', 'card', 'correction') AND created_ms >= ?
GROUP BY 1;

--: balances
SELECT coalesce(sum(balance_nano / 1000000000) FILTER (WHERE balance_nano > 0), 0),
    coalesce(sum(balance_nano % 1000000000) FILTER (WHERE balance_nano > 0), 0),
    coalesce(sum(-balance_nano / 1000000000) FILTER (WHERE balance_nano < 0), 0),
    coalesce(sum(-balance_nano % 1000000000) FILTER (WHERE balance_nano < 0), 0)
FROM accounts;
