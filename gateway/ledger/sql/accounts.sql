-- Statements of `accounts`. Amounts are summed in two parts, see `database.PART`.

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

--: accounts
SELECT id, name, created_ms FROM accounts WHERE name = coalesce(:account, name) ORDER BY name;

--: moved
SELECT account_id, CASE WHEN entries.created_ms < :since THEN 'before' ELSE kind END,
    sum(amount_nano / 1000000000), sum(amount_nano % 1000000000)
FROM accounts CROSS JOIN entries ON account_id = accounts.id
WHERE kind <> 'charge' AND entries.created_ms < :until AND name = coalesce(:account, name)
GROUP BY 1, 2;

-- Two sums, each read in the order of its table's key: to group by account and kind takes twice as long.
--: charges
SELECT accounts.id, 'before', sum(-cost_nano / 1000000000), sum(-cost_nano % 1000000000)
FROM accounts CROSS JOIN daily ON account_id = accounts.id
WHERE day < :first AND name = coalesce(:account, name)
GROUP BY accounts.id
UNION ALL
SELECT accounts.id, 'charge', sum(-cost_nano / 1000000000), sum(-cost_nano % 1000000000)
FROM accounts CROSS JOIN daily ON account_id = accounts.id
WHERE day >= :first AND day < :end AND name = coalesce(:account, name)
GROUP BY accounts.id;
