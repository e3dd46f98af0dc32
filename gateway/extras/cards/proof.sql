-- Checks of a full audit; `ledger.sql.audit.Check` says how a check is written.

--: order {0}: its entry {1} has another kind, amount, account or payment page
SELECT orders.id, orders.entry_id
FROM orders LEFT JOIN entries ON entries.id = orders.entry_id
WHERE orders.entry_id IS NOT NULL AND (
    coalesce(entries.kind, '') <> 'card'
    OR entries.amount_nano <> orders.amount_nano
    OR entries.account_id <> orders.account_id
    OR entries.idempotency_key <> orders.session_id
);

--: entry {0}: no order was paid by it
SELECT id FROM entries
WHERE kind = 'card' AND NOT EXISTS (SELECT 1 FROM orders WHERE orders.entry_id = entries.id);

--: order {0}: {1} nano-units are said to be taken back, its corrections took {2}
SELECT id, taken_nano, returned
FROM (
    SELECT orders.id, taken_nano, coalesce((
        SELECT -sum(amount_nano) FROM entries
        WHERE entries.account_id = orders.account_id AND kind = 'correction'
            AND substr(idempotency_key, 1, length(orders.id) + 1) = orders.id || ' '
            -- An operator's correction may name the order in its key, too.
            AND substr(note, 1, 5) = 'card '
            AND substr(note, length(note) - length(orders.id) + 1) = orders.id
    ), 0) AS returned
    FROM orders
) AS summed
WHERE taken_nano <> returned;
