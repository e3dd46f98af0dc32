-- Statements of `ranks`. Amounts are summed in two parts, see `database.PART`.

-- A join, because PostgreSQL then reads these days once, not each account's for itself.
--: rank by spent
SELECT json_group_array(json_array(id, wholes, rests)) FROM (
    SELECT accounts.id, coalesce(sum(cost_nano / 1000000000), 0) AS wholes,
        coalesce(sum(cost_nano % 1000000000), 0) AS rests
    FROM accounts LEFT JOIN daily ON account_id = accounts.id AND day > :today - {days}
    GROUP BY accounts.id
) AS spent;

--: rank by held
SELECT json_group_array(json_array(id, 0, coalesce((
    SELECT sum(hold_nano) FROM requests
    WHERE requests.account_id = accounts.id AND state = 'pending'
), 0))) FROM accounts;

--: top
SELECT accounts.name FROM accounts CROSS JOIN daily ON account_id = accounts.id
WHERE day >= ? AND requests > 0 GROUP BY accounts.name
ORDER BY sum(cost_nano / 1000000000) + sum(cost_nano % 1000000000) / 1000000000 DESC,
    sum(cost_nano % 1000000000) % 1000000000 DESC, accounts.name
LIMIT ?;
