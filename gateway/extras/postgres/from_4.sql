-- The tables of version 4, taken to version 5: how long complete replies took, payments by card,
-- requests that were refused, and the prices of models.

CREATE TABLE latencies (
    scope TEXT COLLATE "C" NOT NULL,
    hour amount NOT NULL,
    account_id BIGINT NOT NULL,
    provider TEXT COLLATE "C" NOT NULL,
    upstream_model TEXT COLLATE "C" NOT NULL,
    bucket BIGINT NOT NULL,
    firsts BIGINT NOT NULL,
    totals BIGINT NOT NULL,
    PRIMARY KEY (scope, hour, account_id, provider, upstream_model, bucket)
);

ALTER DOMAIN entry_kind DROP CONSTRAINT entry_kind_check;

ALTER DOMAIN entry_kind
ADD CONSTRAINT entry_kind_check CHECK (VALUE IN ('credit', 'code', 'card', 'charge', 'correction'));

CREATE TABLE orders (
    id TEXT COLLATE "C" PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id) DEFERRABLE,
    amount_nano BIGINT NOT NULL CHECK (amount_nano > 0),
    currency TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('made', 'paid', 'failed', 'expired', 'refunded')),
    session_id TEXT COLLATE "C" UNIQUE,
    payment_id TEXT COLLATE "C" UNIQUE,
    entry_id BIGINT UNIQUE,
    taken_nano amount NOT NULL DEFAULT 0,
    created_ms BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    CHECK ((entry_id IS NULL) = (state NOT IN ('paid', 'refunded')))
);

CREATE INDEX orders_by_account ON orders (account_id, id);

CREATE INDEX orders_open ON orders (created_ms) WHERE state = 'made';

CREATE TABLE order_reversals (
    id TEXT COLLATE "C" PRIMARY KEY,
    order_id TEXT COLLATE "C" NOT NULL REFERENCES orders (id) DEFERRABLE,
    kind TEXT NOT NULL CHECK (kind IN ('refund', 'refunds', 'dispute')),
    amount_nano amount NOT NULL,
    stands flag NOT NULL
);

CREATE INDEX order_reversals_by_order ON order_reversals (order_id);

CREATE TRIGGER orders_kept BEFORE DELETE ON orders
FOR EACH ROW EXECUTE FUNCTION refuse_change('orders');

CREATE FUNCTION refuse_other_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an order keeps its terms, its payment page and its credit'
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER orders_keep_terms BEFORE UPDATE ON orders
FOR EACH ROW WHEN (
    (NEW.id, NEW.account_id, NEW.amount_nano, NEW.currency)
    <> (OLD.id, OLD.account_id, OLD.amount_nano, OLD.currency)
    OR NEW.session_id IS DISTINCT FROM coalesce(OLD.session_id, NEW.session_id)
    OR NEW.entry_id IS DISTINCT FROM coalesce(OLD.entry_id, NEW.entry_id)
)
EXECUTE FUNCTION refuse_other_terms();

CREATE TABLE refused (
    request_id TEXT COLLATE "C" PRIMARY KEY,
    refused_ms BIGINT NOT NULL,
    account_id BIGINT NOT NULL REFERENCES accounts (id) DEFERRABLE,
    key_id TEXT COLLATE "C" NOT NULL,
    code TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL
);

CREATE INDEX refused_by_account ON refused (account_id, request_id);

ALTER TABLE upstream_failures ADD COLUMN type TEXT NOT NULL DEFAULT '';
ALTER TABLE upstream_failures ADD COLUMN code TEXT NOT NULL DEFAULT '';
ALTER TABLE upstream_failures ADD COLUMN param TEXT NOT NULL DEFAULT '';
ALTER TABLE upstream_failures ADD COLUMN rejected flag NOT NULL DEFAULT 0;

CREATE INDEX upstream_failures_by_kind ON upstream_failures (rejected, id);

CREATE TABLE model_prices (
    model TEXT COLLATE "C" PRIMARY KEY,
    prices TEXT COLLATE "C" NOT NULL
);
