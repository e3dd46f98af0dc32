-- Checks of an audit of a file, behind those of both databases. `sql.audit.Check` says how a check is
-- written.

--: entry {0}: it is not in entries_by_account
SELECT entries.id FROM entries LEFT JOIN entries_by_account AS filed
    ON filed.account_id = entries.account_id AND filed.id = entries.id
WHERE filed.id IS NULL AND entries.id <= (SELECT entry_id FROM folded);

--: entry {0}: its request {1} names another charge
SELECT entries.id, request_id FROM entries JOIN requests ON requests.id = request_id
WHERE kind = 'charge' AND charge_id IS NOT entries.id;

--: request {0}: it is not in calls_by_account
SELECT requests.id FROM requests LEFT JOIN calls_by_account AS called
    ON called.account_id = requests.account_id AND called.id = requests.id
WHERE called.id IS NULL AND requests.id NOT IN (SELECT id FROM unfolded);

--: request {0}: it is not in calls_by_provider
SELECT requests.id FROM requests LEFT JOIN calls_by_provider AS called
    ON called.provider = requests.provider AND called.id = requests.id
WHERE called.id IS NULL AND requests.id NOT IN (SELECT id FROM unfolded);

--: request {0}: it is not in calls_by_model
SELECT requests.id FROM requests LEFT JOIN calls_by_model AS called
    ON called.model = requests.model AND called.id = requests.id
WHERE called.id IS NULL AND requests.id NOT IN (SELECT id FROM unfolded);
