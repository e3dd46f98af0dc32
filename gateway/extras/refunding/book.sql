-- Statements of `book`.

--: cost
SELECT accounts.name, account_id, cost_nano
FROM requests JOIN accounts ON accounts.id = account_id WHERE requests.id = ?;

-- In two parts, see `database.PART`.
--: given back
SELECT coalesce(sum(amount_nano / 1000000000), 0), coalesce(sum(amount_nano % 1000000000), 0)
FROM entries WHERE request_id = ? AND kind = 'correction';
