-- Statements of `entries`, but for those that it writes.

-- Every posted request has one charge, so charges are counted by days, not one by one.
--: count
SELECT
    CASE coalesce(:kind, 'charge') WHEN 'charge' THEN (
        SELECT coalesce(sum(requests), 0) FROM daily WHERE account_id = :account
    ) ELSE 0 END + (
        SELECT count(*) FROM entries
        WHERE account_id = :account AND kind = coalesce(:kind, kind) AND kind <> 'charge'
    );

--: cost
SELECT accounts.name, account_id, cost_nano
FROM requests JOIN accounts ON accounts.id = account_id WHERE requests.id = ?;

-- In two parts, see `database.PART`.
--: given back
SELECT coalesce(sum(amount_nano / 1000000000), 0), coalesce(sum(amount_nano % 1000000000), 0)
FROM entries WHERE request_id = ? AND kind = 'correction';
