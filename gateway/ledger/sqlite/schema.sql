-- The schema of this version. Money is in integer nano-units, times are Unix milliseconds, days and
-- hours are counted from the epoch in UTC. Of a secret only its SHA-256 is kept, but for keys that have
-- to be known in the clear: those of one-time codes, and of the signatures of holders' webhooks.

-- Accounts, their keys, and the budgets of keys.

CREATE TABLE accounts (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    operator INTEGER NOT NULL DEFAULT 0 CHECK (operator IN (0, 1)),
    suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)),
    -- The sum of the account's entries, kept in the transaction that adds an entry.
    balance_nano INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    -- For all its keys together. A JSON array of model ids; NULL allows all.
    models TEXT CHECK (models IS NULL OR json_valid(models)),
    -- Limits: NULL is the default of the configuration, 0 is none.
    requests_per_minute INTEGER CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0),
    concurrency INTEGER CHECK (concurrency >= 0)
) STRICT;

-- Budgets begin anew with each day, week or month of the UTC calendar.
CREATE TABLE budgets (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    -- NULL for a key's own, which only the keys that it is rotated to share.
    name TEXT CHECK (name <> ''),
    period TEXT NOT NULL CHECK (period IN ('day', 'week', 'month')),
    amount_nano INTEGER NOT NULL CHECK (amount_nano > 0),
    -- The sum of the posted requests charged to it that ended in the period which begins on
    -- `period_day`, kept in the transaction that posts one.
    spent_nano INTEGER NOT NULL DEFAULT 0 CHECK (spent_nano >= 0),
    period_day INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    CHECK (ended_ms IS NULL OR name IS NOT NULL)
) STRICT;

CREATE INDEX budgets_by_account ON budgets (account_id);

CREATE UNIQUE INDEX budgets_by_name ON budgets (account_id, name)
WHERE name IS NOT NULL AND ended_ms IS NULL;

CREATE TRIGGER budgets_no_delete BEFORE DELETE ON budgets
BEGIN
    SELECT RAISE(ABORT, 'budgets are kept');
END;

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    last4 TEXT NOT NULL CHECK (length(last4) = 4),
    -- As for accounts.
    models TEXT CHECK (models IS NULL OR json_valid(models)),
    requests_per_minute INTEGER CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0),
    concurrency INTEGER CHECK (concurrency >= 0),
    -- The most that the key may ever spend, with all that it was rotated from and to.
    cap_nano INTEGER CHECK (cap_nano >= 0),
    -- The first key of such a line, or the key itself. Its row has the sum of the posted requests of
    -- all of them, but for what is not folded; the others have 0.
    origin_id TEXT NOT NULL REFERENCES keys (id),
    spent_nano INTEGER NOT NULL DEFAULT 0 CHECK (spent_nano >= 0),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    replaced_by TEXT REFERENCES keys (id),
    -- When it was last charged for a request, but for what is not folded.
    last_used_ms INTEGER,
    budget_id INTEGER REFERENCES budgets (id),
    CHECK (spent_nano = 0 OR origin_id = id)
) STRICT;

CREATE INDEX keys_by_account ON keys (account_id);

CREATE INDEX keys_by_budget ON keys (budget_id) WHERE budget_id IS NOT NULL;

-- Requests, the entries of accounts, and sums of both.

-- The prices that applied, each with the rule that chose it: `prices.AppliedPrice` as JSON. The id is
-- made of the text, so a price is written once.
CREATE TABLE prices (
    id INTEGER PRIMARY KEY,
    price TEXT NOT NULL CHECK (json_valid(price))
) STRICT;

CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL REFERENCES keys (id),
    -- That of the key at the time of the hold, whatever becomes of the key.
    budget_id INTEGER REFERENCES budgets (id),
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    stream INTEGER NOT NULL CHECK (stream IN (0, 1)),
    hold_nano INTEGER NOT NULL CHECK (hold_nano >= 0),
    -- The price that the cost was computed from or, until the end, the hold.
    price_id INTEGER NOT NULL REFERENCES prices (id),
    state TEXT NOT NULL CHECK (state IN ('pending', 'posted', 'voided')),
    outcome TEXT NOT NULL,
    status INTEGER CHECK (status BETWEEN 100 AND 599),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    input_tokens INTEGER NOT NULL CHECK (input_tokens >= 0),
    cached_input_tokens INTEGER NOT NULL CHECK (cached_input_tokens >= 0),
    -- Written for some minutes. The sums by hour and day have both lifetimes as one class.
    cache_write_tokens INTEGER NOT NULL CHECK (cache_write_tokens >= 0),
    cache_write_1h_tokens INTEGER NOT NULL CHECK (cache_write_1h_tokens >= 0),
    output_tokens INTEGER NOT NULL CHECK (output_tokens >= 0),
    -- Tokens of other media, which are part of the above, and calls of tools: a JSON object by name.
    extras TEXT CHECK (extras IS NULL OR json_valid(extras)),
    cost_nano INTEGER NOT NULL CHECK (cost_nano >= 0),
    estimated INTEGER NOT NULL CHECK (estimated IN (0, 1)),
    started_ms INTEGER NOT NULL CHECK (started_ms >= 0),
    first_byte_ms INTEGER CHECK (first_byte_ms >= 0),
    ended_ms INTEGER CHECK (ended_ms >= 0),
    -- What the provider bills for it, by the cost that was configured then; NULL if none was.
    provider_cost_nano INTEGER
    CHECK (provider_cost_nano IS NULL OR (provider_cost_nano >= 0 AND state = 'posted')),
    -- The same as the provider reported it; NULL if it did not.
    reported_cost_nano INTEGER
    CHECK (reported_cost_nano IS NULL OR (reported_cost_nano >= 0 AND state = 'posted')),
    -- The entry that charges a posted request.
    charge_id INTEGER,
    CHECK ((state = 'pending') = (outcome = 'pending')),
    CHECK ((state = 'pending') = (ended_ms IS NULL)),
    -- What the caller of an interrupted request saw, nobody knows.
    CHECK ((outcome IN ('pending', 'interrupted')) = (status IS NULL)),
    CHECK (outcome <> 'interrupted' OR state = 'voided'),
    CHECK (state = 'posted' OR cost_nano = 0)
) STRICT;

-- What is in flight, or was at a crash: few rows, looked for by holds, audit and recovery.
CREATE INDEX requests_pending ON requests (account_id) WHERE state = 'pending';

CREATE INDEX requests_interrupted ON requests (started_ms) WHERE outcome = 'interrupted';

-- Calls that ended in another hour than they began in: few. With them, sums by the hour of the end
-- say how many calls began on a day, and when.
CREATE INDEX requests_over_hours ON requests (account_id, started_ms, ended_ms, key_id, model)
WHERE ended_ms / 3600000 <> started_ms / 3600000;

-- Failures are few; a search for one outcome or status looks at no other calls.
CREATE INDEX requests_failed ON requests (id, outcome, status, provider, account_id)
WHERE outcome NOT IN ('pending', 'complete');

CREATE INDEX requests_by_budget ON requests (budget_id, ended_ms, cost_nano)
WHERE budget_id IS NOT NULL AND ended_ms IS NOT NULL;

CREATE TRIGGER requests_settle_once BEFORE UPDATE ON requests WHEN OLD.state <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'a request is settled once');
END;

-- INSERT OR REPLACE deletes the row it replaces without firing the triggers for deletion.
CREATE TRIGGER requests_no_replace BEFORE INSERT ON requests
WHEN EXISTS (SELECT 1 FROM requests WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'a request is inserted once');
END;

-- UPDATE OR REPLACE deletes the row whose place it takes.
CREATE TRIGGER requests_keep_id BEFORE UPDATE ON requests
WHEN NEW.id <> OLD.id OR NEW.rowid <> OLD.rowid
BEGIN
    SELECT RAISE(ABORT, 'a request keeps its id');
END;

CREATE TRIGGER requests_no_delete BEFORE DELETE ON requests
BEGIN
    SELECT RAISE(ABORT, 'requests are kept');
END;

CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    kind TEXT NOT NULL CHECK (kind IN ('credit', 'code', 'card', 'charge', 'correction')),
    amount_nano INTEGER NOT NULL,
    balance_after_nano INTEGER NOT NULL,
    request_id TEXT REFERENCES requests (id),
    idempotency_key TEXT,
    note TEXT NOT NULL DEFAULT '',
    created_ms INTEGER NOT NULL,
    CHECK (kind <> 'charge' OR (amount_nano <= 0 AND request_id IS NOT NULL)),
    CHECK (kind NOT IN ('credit', 'code', 'card') OR (amount_nano > 0 AND request_id IS NULL)),
    -- A correction of 0 says of a request that its charge stays as it is.
    CHECK (kind <> 'correction' OR (note <> '' AND (amount_nano <> 0 OR request_id IS NOT NULL)))
) STRICT;

-- All but charges: few rows, counted and listed apart.
CREATE INDEX entries_moves ON entries (account_id, kind) WHERE kind <> 'charge';

CREATE INDEX entries_corrections ON entries (request_id)
WHERE kind = 'correction' AND request_id IS NOT NULL;

CREATE UNIQUE INDEX entries_idempotent ON entries (account_id, idempotency_key)
WHERE idempotency_key IS NOT NULL;

CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

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

-- Sums of ended requests. Voided ones (`failed`) are added in the transaction that voids them, posted
-- ones by the next fold. A request belongs to the day and hour it ended in.
CREATE TABLE daily (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    -- '' for the sums of requests that were dropped before sums had a provider.
    provider TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    -- Requests whose cost to us is known, what they were charged, and that cost.
    known INTEGER NOT NULL,
    charged_nano INTEGER NOT NULL,
    provider_cost_nano INTEGER NOT NULL,
    -- Requests whose provider reported the cost, and the sum of it.
    reported INTEGER NOT NULL,
    reported_nano INTEGER NOT NULL,
    -- Requests with both, and how much more was reported than computed.
    compared INTEGER NOT NULL,
    difference_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id, provider)
) STRICT, WITHOUT ROWID;

-- The sums of `daily` over all accounts and keys: thousands of its rows are some of these. Amounts are in
-- two parts, wholes of 10^9 nano-units and rests, as they may be more than 64 bits together.
CREATE TABLE daily_totals (
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_wholes INTEGER NOT NULL,
    cost_rests INTEGER NOT NULL,
    known INTEGER NOT NULL,
    charged_wholes INTEGER NOT NULL,
    charged_rests INTEGER NOT NULL,
    provider_cost_wholes INTEGER NOT NULL,
    provider_cost_rests INTEGER NOT NULL,
    reported INTEGER NOT NULL,
    reported_wholes INTEGER NOT NULL,
    reported_rests INTEGER NOT NULL,
    compared INTEGER NOT NULL,
    difference_wholes INTEGER NOT NULL,
    difference_rests INTEGER NOT NULL,
    PRIMARY KEY (day, model, provider)
) STRICT, WITHOUT ROWID;

CREATE TABLE hourly (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    hour INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, hour, model, key_id)
) STRICT, WITHOUT ROWID;

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

-- The last entry whose charge is in `daily`, `hourly` and the columns of `keys`: see `folds`. One
-- row. The tables of calls by account, provider and model have its request, too.
CREATE TABLE folded (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    entry_id INTEGER NOT NULL
) STRICT;

INSERT INTO folded VALUES (1, 0);

-- The requests of the charges that are not in the sums.
CREATE VIEW unfolded AS
SELECT requests.id, charge_id, requests.account_id, key_id, model, provider, ended_ms, input_tokens,
    cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano,
    provider_cost_nano, reported_cost_nano
FROM entries CROSS JOIN requests ON requests.id = entries.request_id
WHERE entries.id > (SELECT entry_id FROM folded) AND kind = 'charge';

-- Up to `entry_id` the entries were proven; a later audit may begin there.
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY,
    entry_id INTEGER NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;

-- What other processes committed, for the server's memory. AUTOINCREMENT: a number never comes
-- back, so "since the last seen" stays right after old rows were deleted.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'key', 'budget')),
    id TEXT NOT NULL
) STRICT;

-- Who did what, apart from requests: for the operator's audit page.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    account TEXT,
    target TEXT,
    detail TEXT NOT NULL,
    address TEXT
) STRICT;

CREATE INDEX events_by_action ON events (action);

CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

-- The prices that each model had when a process last read the configuration: JSON, the base price and
-- those of its rules. A change of them is an event.
CREATE TABLE model_prices (
    model TEXT PRIMARY KEY,
    prices TEXT NOT NULL CHECK (json_valid(prices))
) STRICT, WITHOUT ROWID;
