-- Statements of `book`. `whose` chooses the keys of an account, by their index, or all.

--: keys
SELECT keys.id, keys.name, last4, accounts.name, revoked_ms
FROM keys JOIN accounts ON accounts.id = keys.account_id
WHERE {whose} AND (last4 = :last4 OR keys.name LIKE :part ESCAPE '\' OR keys.id = :text)
ORDER BY CASE WHEN last4 = :last4 THEN 0 ELSE 1 END, coalesce(revoked_ms, 0), keys.created_ms DESC
LIMIT :limit;

--: calls
SELECT requests.id, accounts.name, model
FROM requests JOIN accounts ON accounts.id = requests.account_id
WHERE requests.id >= :low AND requests.id <= :high
    AND requests.account_id = coalesce(:account, requests.account_id)
ORDER BY requests.id DESC LIMIT :limit;

--: refused calls
SELECT request_id, accounts.name, code
FROM refused JOIN accounts ON accounts.id = refused.account_id
WHERE request_id >= :low AND request_id <= :high
    AND refused.account_id = coalesce(:account, refused.account_id)
ORDER BY request_id DESC LIMIT :limit;
