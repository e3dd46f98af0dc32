-- The tables of version 14, taken to version 15: several people may sign in to an account; what a payment
-- provider took for its payments is kept; the sums by day are by provider, too, and have what providers
-- bill, which were sums of their own.

-- The old tables get other names first, so that the new ones are made by the text that a new database
-- has: SQLite keeps the text, and changing their keys takes new tables.
DROP INDEX recovery_codes_by_account;

DROP INDEX sessions_by_account;

ALTER TABLE passwords RENAME TO old_passwords;

ALTER TABLE totp RENAME TO old_totp;

ALTER TABLE recovery_codes RENAME TO old_recovery_codes;

ALTER TABLE signin_links RENAME TO old_signin_links;

ALTER TABLE sessions RENAME TO old_sessions;

-- Several people may sign in to an account, each in a way of their own: `person` is the name of one,
-- or empty for the account's own sign-in. One that has a name exists once it has a password.
CREATE TABLE passwords (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    -- scrypt, with its parameters and salt.
    hash TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    -- The last time that somebody signed in, by whatever way; NULL if nobody did since it was counted.
    signed_in_ms INTEGER,
    PRIMARY KEY (account_id, person)
) STRICT;

-- One-time codes (TOTP), which are asked for beside the password.
CREATE TABLE totp (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    -- The key that the person's app has, too: it has to be known in the clear.
    secret BLOB NOT NULL CHECK (length(secret) = 20),
    -- The time step of the last code that was accepted: only later ones are.
    last_step INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    -- NULL: the person has not shown a code yet, and none is asked for.
    confirmed_ms INTEGER,
    PRIMARY KEY (account_id, person)
) STRICT;

-- Codes that work in place of a one-time code. Each is used once, by being deleted.
CREATE TABLE recovery_codes (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    account_id INTEGER NOT NULL,
    person TEXT NOT NULL,
    FOREIGN KEY (account_id, person) REFERENCES totp (account_id, person)
) STRICT;

CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id, person);

-- At most one link a person: a new one ends the one before. Used once, by being deleted.
CREATE TABLE signin_links (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, person)
) STRICT;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    person TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    opened_by TEXT NOT NULL CHECK (opened_by IN ('password', 'link', 'identity header')),
    device TEXT NOT NULL,
    address TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    -- Whatever happens; it ends earlier when nobody uses it.
    expires_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_by_account ON sessions (account_id, person);

INSERT INTO passwords (account_id, person, hash, created_ms, changed_ms, signed_in_ms)
SELECT account_id, '', hash, changed_ms, changed_ms,
    (SELECT max(created_ms) FROM old_sessions WHERE old_sessions.account_id = old_passwords.account_id)
FROM old_passwords;

INSERT INTO totp (account_id, person, secret, last_step, created_ms, confirmed_ms)
SELECT account_id, '', secret, last_step, created_ms, confirmed_ms FROM old_totp;

INSERT INTO recovery_codes (digest, account_id, person)
SELECT digest, account_id, '' FROM old_recovery_codes;

INSERT INTO signin_links (account_id, person, digest, created_ms, expires_ms)
SELECT account_id, '', digest, created_ms, expires_ms FROM old_signin_links;

INSERT INTO sessions (
    id, account_id, person, digest, opened_by, device, address, created_ms, last_seen_ms, expires_ms
)
SELECT id, account_id, '', digest, opened_by, device, address, created_ms, last_seen_ms, expires_ms
FROM old_sessions;

DROP TABLE old_recovery_codes;

DROP TABLE old_totp;

DROP TABLE old_passwords;

DROP TABLE old_signin_links;

DROP TABLE old_sessions;

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

DROP TABLE daily_costs;

DROP TABLE daily;

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

INSERT INTO daily
SELECT account_id, ended_ms / 86400000, model, key_id, provider,
    count(*) FILTER (WHERE state = 'posted'), count(*) FILTER (WHERE state = 'voided'),
    coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(cache_write_tokens + cache_write_1h_tokens) FILTER (WHERE state = 'posted'), 0),
    coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0), sum(cost_nano),
    count(provider_cost_nano),
    coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0),
    coalesce(sum(provider_cost_nano), 0), count(reported_cost_nano),
    coalesce(sum(reported_cost_nano), 0), count(reported_cost_nano - provider_cost_nano),
    coalesce(sum(reported_cost_nano - provider_cost_nano), 0)
FROM requests
WHERE state = 'voided' OR charge_id <= (SELECT entry_id FROM folded) -- the next fold adds the rest
GROUP BY 1, 2, 3, 4, 5;

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

INSERT INTO daily_totals
SELECT
    day, model, provider, sum(requests), sum(failed), sum(input_tokens),
    sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens),
    sum(cost_nano / 1000000000), sum(cost_nano % 1000000000), sum(known),
    sum(charged_nano / 1000000000), sum(charged_nano % 1000000000),
    sum(provider_cost_nano / 1000000000), sum(provider_cost_nano % 1000000000), sum(reported),
    sum(reported_nano / 1000000000), sum(reported_nano % 1000000000), sum(compared),
    sum(difference_nano / 1000000000), sum(difference_nano % 1000000000)
FROM daily GROUP BY 1, 2, 3;
