-- The tables of version 5, taken to version 6: what a payment provider took for its payments.

CREATE TABLE order_fees (
    id TEXT COLLATE "C" PRIMARY KEY,
    order_id TEXT COLLATE "C" NOT NULL REFERENCES orders (id) DEFERRABLE,
    kind TEXT NOT NULL CHECK (kind IN ('payment', 'dispute')),
    amount_nano BIGINT NOT NULL,
    currency TEXT COLLATE "C" NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE INDEX order_fees_by_order ON order_fees (order_id);

CREATE INDEX order_fees_by_time ON order_fees (created_ms);
