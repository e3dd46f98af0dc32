-- Checks of an audit in PostgreSQL, behind those of both databases: what is in flight, and what SQLite's
-- rules refuse, and here would cost each round the time to verify. `sql.audit.Check` says how a check is
-- written.

--: account {0}: it has {1} in flight, and {2} requests pending
SELECT accounts.id, in_flight, coalesce(pending.requests, 0)
FROM accounts LEFT JOIN (
    SELECT account_id, count(*) AS requests FROM requests WHERE state = 'pending' GROUP BY 1
) AS pending ON pending.account_id = accounts.id
WHERE in_flight <> coalesce(pending.requests, 0);

--: key {0}: it has {1} in flight, and {2} requests pending
SELECT keys.id, in_flight, coalesce(pending.requests, 0)
FROM keys LEFT JOIN (
    SELECT key_id, count(*) AS requests FROM requests WHERE state = 'pending' GROUP BY 1
) AS pending ON pending.key_id = keys.id
WHERE in_flight <> coalesce(pending.requests, 0);

--: request {0}: {1}, {2}: its end, status or costs are another state's
SELECT id, state, outcome FROM requests
WHERE (state = 'pending') <> (outcome = 'pending')
    OR (state = 'pending') <> (ended_ms IS NULL)
    OR (outcome IN ('pending', 'interrupted')) <> (status IS NULL)
    OR (outcome = 'interrupted' AND state <> 'voided')
    OR (state <> 'posted' AND (
        cost_nano > 0 OR provider_cost_nano IS NOT NULL OR reported_cost_nano IS NOT NULL
    ));

--: request {0}: it has no key of its account
SELECT requests.id FROM requests
LEFT JOIN keys ON keys.id = key_id AND keys.account_id = requests.account_id
WHERE keys.id IS NULL;

--: request {0}: its budget {1} is missing
SELECT requests.id, budget_id FROM requests LEFT JOIN budgets ON budgets.id = budget_id
WHERE budget_id IS NOT NULL AND budgets.id IS NULL;

--: request {0}: its price {1} is missing
SELECT requests.id, price_id FROM requests LEFT JOIN prices ON prices.id = price_id
WHERE prices.id IS NULL;

-- Charges have a check of their own.
--: entry {0}: it corrects request {1}, which is missing
SELECT id, request_id FROM entries
WHERE kind = 'correction' AND request_id >= :kept_id
    AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.id = request_id);

--: entry {0}: it has no account
SELECT entries.id FROM entries LEFT JOIN accounts ON accounts.id = account_id
WHERE accounts.id IS NULL;

--: request {0}: charged {1} times
SELECT request_id, count(*) FROM entries WHERE kind = 'charge'
GROUP BY request_id HAVING count(*) > 1;
