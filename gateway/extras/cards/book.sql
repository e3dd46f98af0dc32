-- Statements of `book`.

--: each
SELECT orders.id, accounts.name, amount_nano, currency, state, session_id, payment_id, taken_nano,
    orders.created_ms, changed_ms, entry_id,
    (
        SELECT CASE count(DISTINCT order_fees.currency)
            WHEN 1 THEN CAST(sum(order_fees.amount_nano) AS BIGINT) END
        FROM order_fees WHERE order_id = orders.id
    ),
    (
        SELECT CASE count(DISTINCT order_fees.currency) WHEN 1 THEN max(order_fees.currency) END
        FROM order_fees WHERE order_id = orders.id
    )
FROM orders JOIN accounts ON accounts.id = account_id;

--: pay
UPDATE orders SET state = 'paid', session_id = coalesce(session_id, :page),
    payment_id = :payment, entry_id = :entry, changed_ms = :now
WHERE id = :id;

-- A refund that failed, or a dispute that was won, stays so whatever older message comes behind it.
--: keep reversal
INSERT INTO order_reversals (id, order_id, kind, amount_nano, stands) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    stands = CASE WHEN excluded.stands < order_reversals.stands
        THEN excluded.stands ELSE order_reversals.stands END,
    amount_nano = CASE WHEN excluded.amount_nano > order_reversals.amount_nano
        THEN excluded.amount_nano ELSE order_reversals.amount_nano END;

--: kept reversals
SELECT id, amount_nano, stands FROM order_reversals
WHERE id IN (SELECT CAST(value AS TEXT) FROM json_each(:ids));

--: kept fees
SELECT id FROM order_fees WHERE id IN (SELECT CAST(value AS TEXT) FROM json_each(:ids));

--: is refused
SELECT 1 FROM events WHERE action = 'order.refuse' AND target = ? AND detail = ?;

--: keep fee
INSERT INTO order_fees (id, order_id, kind, amount_nano, currency, created_ms)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

--: sum fees
SELECT order_fees.currency, count(DISTINCT order_id), CAST(sum(order_fees.amount_nano) AS BIGINT)
FROM order_fees JOIN orders ON orders.id = order_id
    JOIN accounts ON accounts.id = account_id AND name = coalesce(:account, name)
WHERE order_fees.created_ms >= :since AND order_fees.created_ms < :until
GROUP BY order_fees.currency ORDER BY order_fees.currency;

--: sum reversals
SELECT coalesce(sum(amount_nano) FILTER (WHERE kind = 'dispute' AND stands = 1), 0),
    coalesce(sum(amount_nano) FILTER (WHERE kind = 'refund' AND stands = 1), 0),
    coalesce(sum(amount_nano) FILTER (WHERE kind = 'refund' AND stands = 0), 0),
    coalesce(sum(amount_nano) FILTER (WHERE kind = 'refunds'), 0)
FROM order_reversals WHERE order_id = ?;
