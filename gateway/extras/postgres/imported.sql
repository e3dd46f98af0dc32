-- What is in no record that an import brings. Rows came with their numbers, of which the sequences know
-- nothing.
SELECT setval(pg_get_serial_sequence('accounts', 'id'), max(id)) FROM accounts HAVING max(id) > 0;
SELECT setval(pg_get_serial_sequence('budgets', 'id'), max(id)) FROM budgets HAVING max(id) > 0;
SELECT setval(pg_get_serial_sequence('entries', 'id'), max(id)) FROM entries HAVING max(id) > 0;
SELECT setval(pg_get_serial_sequence('events', 'id'), max(id)) FROM events HAVING max(id) > 0;
SELECT setval(pg_get_serial_sequence('upstream_failures', 'id'), max(id))
FROM upstream_failures HAVING max(id) > 0;

-- What nodes hold is the sum of the pending requests.
UPDATE accounts SET held_nano = pending.held_nano, in_flight = pending.requests
FROM (
    SELECT account_id, sum(hold_nano) AS held_nano, count(*) AS requests
    FROM requests WHERE state = 'pending' GROUP BY 1
) AS pending
WHERE accounts.id = account_id;
UPDATE budgets SET held_nano = pending.held_nano
FROM (
    SELECT budget_id, sum(hold_nano) AS held_nano FROM requests WHERE state = 'pending' GROUP BY 1
) AS pending
WHERE budgets.id = budget_id;
UPDATE keys SET in_flight = pending.requests
FROM (
    SELECT key_id, count(*) AS requests FROM requests WHERE state = 'pending' GROUP BY 1
) AS pending
WHERE keys.id = key_id;
UPDATE keys SET held_nano = pending.held_nano
FROM (
    SELECT used.origin_id, sum(hold_nano) AS held_nano
    FROM requests JOIN keys AS used ON used.id = key_id WHERE state = 'pending' GROUP BY 1
) AS pending
WHERE keys.id = pending.origin_id;
