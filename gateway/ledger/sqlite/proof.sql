-- Checks of an audit of a file, behind those of both databases. `sql.audit.Check` says how a check is
-- written.

--: entry {0}: it is not in entries_by_account
SELECT entries.id FROM entries LEFT JOIN entries_by_account AS filed
    ON filed.account_id = entries.account_id AND filed.id = entries.id
WHERE filed.id IS NULL AND entries.id <= (SELECT entry_id FROM folded);

--: entry {0}: entries_by_account has it for account {1}
SELECT filed.id, filed.account_id
FROM entries_by_account AS filed LEFT JOIN entries ON entries.id = filed.id
WHERE entries.account_id IS NOT filed.account_id;

--: folded: charges up to entry {0} are in the sums, and the last entry is {1}
SELECT entry_id, last FROM folded, (SELECT coalesce(max(id), 0) AS last FROM entries)
WHERE entry_id > last;

--: entry {0}: its request {1} names another charge
SELECT entries.id, request_id FROM entries JOIN requests ON requests.id = request_id
WHERE kind = 'charge' AND charge_id IS NOT entries.id;

-- Sums by day, which are those of the requests, tell the keys of each account without a look at every request.
--: account {0}: requests of it, such as {2}, used key {1}, which is another account's
SELECT account_id, key_id, coalesce(
    (
        SELECT min(id) FROM calls_by_account AS called
        WHERE called.account_id = used.account_id AND called.key_id = used.key_id
    ),
    'those no longer kept'
)
FROM (
    SELECT DISTINCT daily.account_id, key_id FROM daily JOIN keys ON keys.id = key_id
    WHERE keys.account_id <> daily.account_id
) AS used;

--: request {0}: it is not in calls_by_account, or has another key or model there
SELECT requests.id FROM requests LEFT JOIN calls_by_account AS called
    ON called.account_id = requests.account_id AND called.id = requests.id
WHERE (called.key_id, called.model) IS NOT (requests.key_id, requests.model)
    AND requests.id NOT IN (SELECT id FROM unfolded);

-- Each request has one there once it is folded, or sooner, so more are those of wrong accounts.
--: calls_by_account: it has {0} calls, and there are {1}
SELECT filed, calls
FROM (
    SELECT (SELECT count(*) FROM calls_by_account) AS filed,
        (SELECT count(*) FROM requests) AS calls
) AS counted
WHERE filed > calls;

--: request {0}: it is not in calls_by_provider
SELECT requests.id FROM requests LEFT JOIN calls_by_provider AS called
    ON called.provider = requests.provider AND called.id = requests.id
WHERE called.id IS NULL AND requests.id NOT IN (SELECT id FROM unfolded);

--: request {0}: it is not in calls_by_model
SELECT requests.id FROM requests LEFT JOIN calls_by_model AS called
    ON called.model = requests.model AND called.id = requests.id
WHERE called.id IS NULL AND requests.id NOT IN (SELECT id FROM unfolded);
