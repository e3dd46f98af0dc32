-- Checks of a full audit, as `ledger.sql.audit.Check` says.

--: code {0}: its entry {1} has another kind, amount or account
SELECT codes.id, codes.entry_id
FROM codes LEFT JOIN entries ON entries.id = codes.entry_id
WHERE codes.entry_id IS NOT NULL AND (
    coalesce(entries.kind, '') <> 'code'
    OR entries.amount_nano <> codes.amount_nano
    OR entries.account_id <> codes.redeemed_by
);

--: entry {0}: no code was redeemed by it
SELECT id FROM entries
WHERE kind = 'code' AND NOT EXISTS (SELECT 1 FROM codes WHERE codes.entry_id = entries.id);
