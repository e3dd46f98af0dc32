-- Statements of `book`.

--: add
INSERT INTO codes (id, digest, last4, batch, amount_nano, note, created_by, created_ms, expires_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

--: each
SELECT codes.id, batch, last4, amount_nano, note, created_by, codes.created_ms, expires_ms,
    voided_ms, redeemed_ms, accounts.name
FROM codes LEFT JOIN accounts ON accounts.id = redeemed_by;

--: find open
SELECT id, last4, amount_nano FROM codes
WHERE digest = :digest AND redeemed_ms IS NULL AND voided_ms IS NULL
    AND (expires_ms IS NULL OR expires_ms > :now);

--: find own
SELECT redeemed_ms FROM codes
WHERE digest = :digest AND redeemed_by = (SELECT id FROM accounts WHERE name = :account);

--: redeem
UPDATE codes SET redeemed_ms = :now, redeemed_by = :account, entry_id = :entry
WHERE id = :id AND redeemed_ms IS NULL AND voided_ms IS NULL
    AND (expires_ms IS NULL OR expires_ms > :now);

--: void batch
UPDATE codes SET voided_ms = :now
WHERE batch = :batch AND redeemed_ms IS NULL AND voided_ms IS NULL
    AND (expires_ms IS NULL OR expires_ms > :now);
