-- Takes a database of this version of the schema back to the one before, which had the tables of extras.
DROP TABLE IF EXISTS order_fees;
CREATE TABLE IF NOT EXISTS passwords (account_id, hash, changed_ms);
CREATE TABLE IF NOT EXISTS totp (account_id, secret, last_step, created_ms, confirmed_ms);
CREATE TABLE IF NOT EXISTS recovery_codes (digest, account_id);
CREATE TABLE IF NOT EXISTS signin_links (account_id, digest, created_ms, expires_ms);
CREATE TABLE IF NOT EXISTS sessions (
    id, account_id, person, digest, opened_by, device, address, created_ms, last_seen_ms, expires_ms
);
CREATE INDEX IF NOT EXISTS sessions_by_account ON sessions (account_id, person);
DROP TABLE daily_totals;
CREATE TABLE daily_costs (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    known INTEGER NOT NULL,
    charged_nano INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    reported INTEGER NOT NULL,
    reported_nano INTEGER NOT NULL,
    compared INTEGER NOT NULL,
    difference_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO daily_costs
SELECT account_id, day, model, key_id, sum(known), sum(charged_nano), sum(provider_cost_nano),
    sum(reported), sum(reported_nano), sum(compared), sum(difference_nano)
FROM daily GROUP BY 1, 2, 3, 4 HAVING sum(known) + sum(reported) > 0;
ALTER TABLE daily RENAME TO later;
CREATE TABLE daily (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL REFERENCES keys (id),
    requests INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO daily
SELECT account_id, day, model, key_id, sum(requests), sum(failed), sum(input_tokens),
    sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens), sum(cost_nano)
FROM later GROUP BY 1, 2, 3, 4;
DROP TABLE later;
ALTER TABLE passwords RENAME TO new_passwords;
ALTER TABLE totp RENAME TO new_totp;
ALTER TABLE recovery_codes RENAME TO new_recovery_codes;
ALTER TABLE signin_links RENAME TO new_signin_links;
CREATE TABLE passwords (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    hash TEXT NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE totp (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    secret BLOB NOT NULL CHECK (length(secret) = 20),
    last_step INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    confirmed_ms INTEGER
) STRICT;
CREATE TABLE recovery_codes (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    account_id INTEGER NOT NULL REFERENCES totp (account_id)
) STRICT;
CREATE TABLE signin_links (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;
INSERT INTO passwords SELECT account_id, hash, changed_ms FROM new_passwords;
INSERT INTO totp
SELECT account_id, secret, last_step, created_ms, confirmed_ms FROM new_totp;
INSERT INTO recovery_codes SELECT digest, account_id FROM new_recovery_codes;
INSERT INTO signin_links
SELECT account_id, digest, created_ms, expires_ms FROM new_signin_links;
DROP TABLE new_recovery_codes;
DROP TABLE new_totp;
DROP TABLE new_passwords;
DROP TABLE new_signin_links;
CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
DROP INDEX sessions_by_account;
ALTER TABLE sessions DROP COLUMN person;
CREATE INDEX sessions_by_account ON sessions (account_id);
