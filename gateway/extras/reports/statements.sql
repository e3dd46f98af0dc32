-- Statements of `statements`. Amounts are summed in two parts, see `database.PART`.

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
