-- The tables of version 13, taken to version 14: sums are folded, see `folds`, and so are the largest
-- indexes of requests. Payments by card are a kind of entries.

-- To write all entries anew for a longer list of kinds would take minutes. SQLite's documentation of
-- ALTER TABLE changes CHECK constraints in this way.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(
    replace(sql, '''credit'', ''code'', ''charge''', '''credit'', ''code'', ''card'', ''charge'''),
    '(''credit'', ''code'')', '(''credit'', ''code'', ''card'')'
)
WHERE type = 'table' AND name = 'entries';

PRAGMA writable_schema = RESET;

CREATE TABLE folded (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    entry_id INTEGER NOT NULL
) STRICT;

INSERT INTO folded SELECT 1, coalesce(max(id), 0) FROM entries;

-- Indexes of requests, as tables: charges are filed in them by a fold, all others at once.

-- Ids are ordered by time, so this lists an account's calls, the latest first. With key and model, so
-- that those of others are passed over without a look at their rows.
CREATE TABLE calls_by_account (
    account_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

-- A provider, or a model, that is used rarely is found without a look at other calls. A call that
-- went on to another provider may be filed under both.
CREATE TABLE calls_by_provider (
    provider TEXT NOT NULL,
    id TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    PRIMARY KEY (provider, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE calls_by_model (
    model TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (model, id)
) STRICT, WITHOUT ROWID;

INSERT INTO calls_by_account SELECT account_id, id, key_id, model FROM requests ORDER BY 1, 2;

INSERT INTO calls_by_provider SELECT provider, id, account_id FROM requests ORDER BY 1, 2;

INSERT INTO calls_by_model SELECT model, id FROM requests ORDER BY 1, 2;

DROP INDEX requests_by_account;

DROP INDEX requests_by_provider;

DROP INDEX requests_by_model;

-- The entry of a charge stands in its request now, in place of an index.
ALTER TABLE requests ADD COLUMN charge_id INTEGER;

DROP TRIGGER requests_settle_once;

UPDATE requests SET charge_id = entries.id FROM entries
WHERE entries.request_id = requests.id AND kind = 'charge';

CREATE TRIGGER requests_settle_once BEFORE UPDATE ON requests WHEN OLD.state <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'a request is settled once');
END;

DROP INDEX entries_one_charge;

DROP TRIGGER entries_no_replace;

-- A request names the entry that charges it, and is settled once: so there is one charge of it.
CREATE TRIGGER entries_one_charge BEFORE INSERT ON entries
WHEN NEW.kind = 'charge' AND NOT EXISTS (
    SELECT 1 FROM requests
    WHERE id = NEW.request_id AND charge_id = NEW.id AND state = 'posted'
        AND cost_nano = -NEW.amount_nano AND account_id = NEW.account_id
)
BEGIN
    SELECT RAISE(ABORT, 'a request is charged once, by the entry that it names');
END;

CREATE TRIGGER entries_no_replace BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE id = NEW.id)
    OR (NEW.idempotency_key IS NOT NULL AND EXISTS (
        SELECT 1 FROM entries
        WHERE account_id = NEW.account_id AND idempotency_key = NEW.idempotency_key
    ))
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE VIEW unfolded AS
SELECT requests.id, charge_id, requests.account_id, key_id, model, provider, ended_ms, input_tokens,
    cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano,
    provider_cost_nano, reported_cost_nano
FROM entries CROSS JOIN requests ON requests.id = entries.request_id
WHERE entries.id > (SELECT entry_id FROM folded) AND kind = 'charge';

DROP INDEX entries_by_account;

-- An index of entries by account: a fold files charges in it, a trigger all others at once.
CREATE TABLE entries_by_account (
    account_id INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER entries_filed AFTER INSERT ON entries WHEN NEW.kind <> 'charge'
BEGIN
    INSERT INTO entries_by_account VALUES (NEW.account_id, NEW.id);
END;

INSERT INTO entries_by_account SELECT account_id, id FROM entries ORDER BY 1, 2;

-- How long complete replies took: counts by buckets of time, see `EDGES_MS`. Each reply is counted for
-- a provider's model ('route') and an account in the hour, and for the day, which is named by its first hour.
CREATE TABLE latencies (
    scope TEXT NOT NULL CHECK (scope IN ('route', 'account', 'day')),
    hour INTEGER NOT NULL CHECK (hour >= 0),
    -- 0, or '', where the scope has none.
    account_id INTEGER NOT NULL,
    provider TEXT NOT NULL,
    upstream_model TEXT NOT NULL,
    bucket INTEGER NOT NULL CHECK (bucket >= 0),
    firsts INTEGER NOT NULL CHECK (firsts >= 0),
    totals INTEGER NOT NULL CHECK (totals >= 0),
    PRIMARY KEY (scope, hour, account_id, provider, upstream_model, bucket)
) STRICT, WITHOUT ROWID;

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

-- Requests that were refused, one by one: callers quote the id. The latest of each day, for a week;
-- none without a valid key.
CREATE TABLE refused (
    request_id TEXT PRIMARY KEY,
    refused_ms INTEGER NOT NULL,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL,
    code TEXT NOT NULL,
    -- What the request asked for, even if nothing has that name; '' if it was refused before that is known.
    model TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX refused_by_account ON refused (account_id, request_id);

-- What a provider's error is called there, and whether it found fault with the request.
ALTER TABLE upstream_failures ADD COLUMN type TEXT NOT NULL DEFAULT '';
ALTER TABLE upstream_failures ADD COLUMN code TEXT NOT NULL DEFAULT '';
ALTER TABLE upstream_failures ADD COLUMN param TEXT NOT NULL
    DEFAULT '';
ALTER TABLE upstream_failures ADD COLUMN rejected INTEGER NOT NULL DEFAULT 0 CHECK (rejected IN (0, 1));

CREATE INDEX upstream_failures_by_kind ON upstream_failures (rejected, id);

-- The prices that each model had when a process last read the configuration: JSON, the base price and
-- those of its rules. A change of them is an event.
CREATE TABLE model_prices (
    model TEXT PRIMARY KEY,
    prices TEXT NOT NULL CHECK (json_valid(prices))
) STRICT, WITHOUT ROWID;
