-- Statements of `totp`.

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
