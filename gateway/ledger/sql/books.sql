-- Statements of `books`: events, one-time codes.

--: page of events
SELECT json_group_array(json_array(id, at_ms, actor, action, account, target, detail, address))
FROM (
    SELECT * FROM events
    WHERE id < :before AND (
        :part IS NULL OR actor LIKE :part ESCAPE '\' OR action LIKE :part ESCAPE '\'
        OR account LIKE :part ESCAPE '\' OR target LIKE :part ESCAPE '\'
    )
    ORDER BY id DESC LIMIT :limit
) AS page;

--: count events
SELECT count(*) FROM events
WHERE actor LIKE :part ESCAPE '\' OR action LIKE :part ESCAPE '\'
    OR account LIKE :part ESCAPE '\' OR target LIKE :part ESCAPE '\';

--: last event
SELECT id, at_ms, actor, action, account, target, detail, address FROM events
WHERE action = :action AND (:address IS NULL OR address = :address)
ORDER BY id DESC LIMIT 1;

--: events after
SELECT id, at_ms, actor, action, account, target, detail, address FROM events
WHERE action = :action AND id > :after AND at_ms >= :since ORDER BY id LIMIT :limit;

--: keep prices
INSERT INTO model_prices (model, prices) VALUES (?, ?)
ON CONFLICT (model) DO UPDATE SET prices = excluded.prices;

--: find reply
SELECT request, status, reply FROM replays
WHERE caller = ? AND route = ? AND idempotency_key = ?;

--: keep reply
INSERT INTO replays (caller, route, idempotency_key, request, status, reply, created_ms)
VALUES (?, ?, ?, ?, ?, ?, ?);

--: totp
SELECT secret, last_step, confirmed_ms, (
    SELECT count(*) FROM recovery_codes
    WHERE recovery_codes.account_id = totp.account_id AND recovery_codes.person = totp.person
)
FROM totp WHERE account_id = ? AND person = ?;

--: propose
INSERT INTO totp (account_id, person, secret, last_step, created_ms) VALUES (?, ?, ?, 0, ?)
ON CONFLICT (account_id, person) DO UPDATE SET
    secret = excluded.secret, last_step = 0, created_ms = excluded.created_ms
WHERE totp.confirmed_ms IS NULL;

--: confirm
UPDATE totp SET confirmed_ms = ?, last_step = ?
WHERE account_id = ? AND person = ? AND secret = ? AND confirmed_ms IS NULL;

--: use step
UPDATE totp SET last_step = ?
WHERE account_id = ? AND person = ? AND last_step < ? AND confirmed_ms IS NOT NULL;
