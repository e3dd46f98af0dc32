-- Schema version 9: budgets, which begin anew with each day, week or month of the UTC calendar.

CREATE TABLE budgets (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    -- NULL for a key's own, which only the keys that it is rotated to share.
    name TEXT CHECK (name <> ''),
    period TEXT NOT NULL CHECK (period IN ('day', 'week', 'month')),
    amount_nano INTEGER NOT NULL CHECK (amount_nano > 0),
    -- The sum of the posted requests charged to it that ended in the period which begins on
    -- `period_day`, kept in the transaction that posts one. Days are counted from the epoch.
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

ALTER TABLE keys ADD COLUMN budget_id INTEGER REFERENCES budgets (id);

CREATE INDEX keys_by_budget ON keys (budget_id) WHERE budget_id IS NOT NULL;

-- The budget of the key at the time of the hold, whatever becomes of the key.
ALTER TABLE requests ADD COLUMN budget_id INTEGER REFERENCES budgets (id);

CREATE INDEX requests_by_budget ON requests (budget_id, ended_ms, cost_nano)
WHERE budget_id IS NOT NULL AND ended_ms IS NOT NULL;

-- It may name budgets, too. SQLite cannot alter a CHECK.
CREATE TABLE changes_2 (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'key', 'budget')),
    id TEXT NOT NULL
) STRICT;

INSERT INTO changes_2 SELECT seq, kind, id FROM changes;

DROP TABLE changes;

ALTER TABLE changes_2 RENAME TO changes;
