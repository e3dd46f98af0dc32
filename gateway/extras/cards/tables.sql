-- Payments by card, each for an order that was made before the payment provider was asked.

CREATE TABLE orders (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    amount_nano INTEGER NOT NULL CHECK (amount_nano > 0),
    currency TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('made', 'paid', 'failed', 'expired', 'refunded')),
    -- The payment page; NULL until the provider has told it.
    session_id TEXT UNIQUE,
    -- What refunds and disputes name; NULL until the payment.
    payment_id TEXT UNIQUE,
    -- The credit.
    entry_id INTEGER UNIQUE REFERENCES entries (id),
    -- What refunds and disputes took back: minus the sum of the order's corrections.
    taken_nano INTEGER NOT NULL DEFAULT 0 CHECK (taken_nano >= 0),
    created_ms INTEGER NOT NULL,
    -- When the state changed last.
    changed_ms INTEGER NOT NULL,
    CHECK ((entry_id IS NULL) = (state NOT IN ('paid', 'refunded')))
) STRICT;

CREATE INDEX orders_by_account ON orders (account_id, id);

CREATE INDEX orders_open ON orders (created_ms) WHERE state = 'made';

CREATE TRIGGER orders_no_replace BEFORE INSERT ON orders
WHEN EXISTS (
    SELECT 1 FROM orders WHERE id = NEW.id OR rowid = NEW.rowid OR session_id = NEW.session_id
)
BEGIN
    SELECT RAISE(ABORT, 'an order is made once');
END;

CREATE TRIGGER orders_keep_terms BEFORE UPDATE ON orders
WHEN NEW.id <> OLD.id OR NEW.rowid <> OLD.rowid OR NEW.account_id <> OLD.account_id
    OR NEW.amount_nano <> OLD.amount_nano OR NEW.currency <> OLD.currency
    OR NEW.session_id IS NOT coalesce(OLD.session_id, NEW.session_id)
    OR NEW.entry_id IS NOT coalesce(OLD.entry_id, NEW.entry_id)
BEGIN
    SELECT RAISE(ABORT, 'an order keeps its terms, its payment page and its credit');
END;

CREATE TRIGGER orders_no_delete BEFORE DELETE ON orders
BEGIN
    SELECT RAISE(ABORT, 'orders are kept');
END;

-- Refunds and disputes of orders by their ids at the provider, so that each counts once.
CREATE TABLE order_reversals (
    id TEXT PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES orders (id),
    -- `refunds` is what all refunds of a charge had come to, which is told beside each of them.
    kind TEXT NOT NULL CHECK (kind IN ('refund', 'refunds', 'dispute')),
    amount_nano INTEGER NOT NULL CHECK (amount_nano >= 0),
    -- 0 once the refund failed, or the dispute was won: that is final.
    stands INTEGER NOT NULL CHECK (stands IN (0, 1))
) STRICT;

CREATE INDEX order_reversals_by_order ON order_reversals (order_id);

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
