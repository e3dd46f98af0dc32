-- The tables of version 14, taken to version 15: what a payment provider took for its payments.

-- What the payment provider took for an order: for its payment, and for disputes of it. Each is told
-- once by its id there, and may be below zero where something was given back.
CREATE TABLE order_fees (
    id TEXT PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES orders (id),
    kind TEXT NOT NULL CHECK (kind IN ('payment', 'dispute')),
    amount_nano INTEGER NOT NULL,
    -- The one that the provider pays out in, which may not be the order's.
    currency TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX order_fees_by_order ON order_fees (order_id);

CREATE INDEX order_fees_by_time ON order_fees (created_ms);
