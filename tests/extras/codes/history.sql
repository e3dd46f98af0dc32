INSERT INTO codes (
    id, batch, digest, last4, amount_nano, note, created_by, created_ms,
    redeemed_ms, redeemed_by, entry_id
)
SELECT 'code_' || id, 'batch', CAST(printf('%032d', id) AS BLOB), printf('%04d', id % 10000),
    amount_nano, '', 'nobody', created_ms, created_ms, account_id, id
FROM entries WHERE kind = 'code';
