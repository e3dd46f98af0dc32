-- Schema version 3: prices with conditions, cache writes for an hour, web searches; no replacing.

-- `cache_write_tokens` are those for some minutes. The sums by hour and day have both as one class.
ALTER TABLE requests ADD COLUMN cache_write_1h_tokens INTEGER NOT NULL DEFAULT 0
CHECK (cache_write_1h_tokens >= 0);

ALTER TABLE requests ADD COLUMN cache_write_1h_price_nano INTEGER NOT NULL DEFAULT 0
CHECK (cache_write_1h_price_nano >= 0);

ALTER TABLE requests ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0 CHECK (web_searches >= 0);

-- Per thousand.
ALTER TABLE requests ADD COLUMN web_search_price_nano INTEGER NOT NULL DEFAULT 0
CHECK (web_search_price_nano >= 0);

-- The conditions that chose the prices; '' for the model's base price.
ALTER TABLE requests ADD COLUMN price_rule TEXT NOT NULL DEFAULT '';

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

CREATE TRIGGER entries_no_replace BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE id = NEW.id)
    OR (NEW.kind = 'charge' AND EXISTS (
        SELECT 1 FROM entries WHERE kind = 'charge' AND request_id = NEW.request_id
    ))
    OR (NEW.idempotency_key IS NOT NULL AND EXISTS (
        SELECT 1 FROM entries
        WHERE account_id = NEW.account_id AND idempotency_key = NEW.idempotency_key
    ))
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER codes_no_replace BEFORE INSERT ON codes
WHEN EXISTS (
    SELECT 1 FROM codes
    WHERE id = NEW.id OR rowid = NEW.rowid OR digest = NEW.digest OR entry_id = NEW.entry_id
)
BEGIN
    SELECT RAISE(ABORT, 'a code is made once');
END;

CREATE TRIGGER codes_keep_id BEFORE UPDATE ON codes
WHEN NEW.id <> OLD.id OR NEW.rowid <> OLD.rowid OR NEW.digest <> OLD.digest OR EXISTS (
    SELECT 1 FROM codes WHERE entry_id = NEW.entry_id AND id <> NEW.id
)
BEGIN
    SELECT RAISE(ABORT, 'a code keeps its id, its digest and its entry');
END;

CREATE TRIGGER codes_no_delete BEFORE DELETE ON codes
BEGIN
    SELECT RAISE(ABORT, 'codes are kept');
END;
