-- The tables of version 5, taken to version 6: several people may sign in to an account; what a payment
-- provider took for its payments is kept; the sums by day are by provider, too, and have what providers
-- bill, which were sums of their own.

-- What was there is the account's own sign-in, whose `person` is empty.

ALTER TABLE recovery_codes
DROP CONSTRAINT recovery_codes_account_id_fkey,
ADD COLUMN person TEXT COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE passwords
DROP CONSTRAINT passwords_pkey,
ADD COLUMN person TEXT COLLATE "C" NOT NULL DEFAULT '',
ADD COLUMN created_ms BIGINT,
ADD COLUMN signed_in_ms BIGINT,
ADD PRIMARY KEY (account_id, person);

UPDATE passwords SET created_ms = changed_ms, signed_in_ms = (
    SELECT max(created_ms) FROM sessions WHERE sessions.account_id = passwords.account_id
);

ALTER TABLE passwords
ALTER COLUMN person DROP DEFAULT,
ALTER COLUMN created_ms SET NOT NULL;

ALTER TABLE totp
DROP CONSTRAINT totp_pkey,
ADD COLUMN person TEXT COLLATE "C" NOT NULL DEFAULT '',
ADD PRIMARY KEY (account_id, person);

ALTER TABLE totp ALTER COLUMN person DROP DEFAULT;

ALTER TABLE recovery_codes
ADD FOREIGN KEY (account_id, person) REFERENCES totp (account_id, person) DEFERRABLE,
ALTER COLUMN person DROP DEFAULT;

DROP INDEX recovery_codes_by_account;

CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id, person);

ALTER TABLE signin_links
DROP CONSTRAINT signin_links_pkey,
ADD COLUMN person TEXT COLLATE "C" NOT NULL DEFAULT '',
ADD PRIMARY KEY (account_id, person);

ALTER TABLE signin_links ALTER COLUMN person DROP DEFAULT;

ALTER TABLE sessions ADD COLUMN person TEXT COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE sessions ALTER COLUMN person DROP DEFAULT;

DROP INDEX sessions_by_account;

CREATE INDEX sessions_by_account ON sessions (account_id, person);

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

ALTER TABLE daily RENAME TO daily_before;

ALTER TABLE daily_before RENAME CONSTRAINT daily_pkey TO daily_before_pkey;

DROP INDEX daily_by_day;

CREATE TABLE daily (
    account_id BIGINT NOT NULL,
    day BIGINT NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    provider TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_input_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_nano BIGINT NOT NULL,
    known BIGINT NOT NULL,
    charged_nano BIGINT NOT NULL,
    provider_cost_nano BIGINT NOT NULL,
    reported BIGINT NOT NULL,
    reported_nano BIGINT NOT NULL,
    compared BIGINT NOT NULL,
    difference_nano BIGINT NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id, provider)
) WITH (fillfactor = 80);

-- Sums of all accounts over some days read those days alone.
CREATE INDEX daily_by_day ON daily (day);

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
FROM requests WHERE state <> 'pending' AND ended_ms >= (SELECT kept_from_ms FROM retention)
GROUP BY 1, 2, 3, 4, 5;

-- The requests of these days were dropped, so nothing tells their providers.
INSERT INTO daily
SELECT account_id, day, model, key_id, '', requests, failed, input_tokens, cached_input_tokens,
    cache_write_tokens, output_tokens, daily_before.cost_nano, coalesce(known, 0),
    coalesce(charged_nano, 0), coalesce(daily_costs.cost_nano, 0), coalesce(reported, 0),
    coalesce(reported_nano, 0), coalesce(compared, 0), coalesce(difference_nano, 0)
FROM daily_before LEFT JOIN daily_costs USING (account_id, day, model, key_id)
WHERE day * 86400000 < (SELECT kept_from_ms FROM retention);

DROP TABLE daily_before, daily_costs;

DROP FUNCTION add_to_costs;

-- In SQLite this is a table, written by folds. Here rounds of several nodes would wait for its few rows.
CREATE VIEW daily_totals AS
SELECT
    day, model, provider,
    sum(requests)::bigint AS requests,
    sum(failed)::bigint AS failed,
    sum(input_tokens)::bigint AS input_tokens,
    sum(cached_input_tokens)::bigint AS cached_input_tokens,
    sum(cache_write_tokens)::bigint AS cache_write_tokens,
    sum(output_tokens)::bigint AS output_tokens,
    sum(cost_nano / 1000000000)::bigint AS cost_wholes,
    sum(cost_nano % 1000000000)::bigint AS cost_rests,
    sum(known)::bigint AS known,
    sum(charged_nano / 1000000000)::bigint AS charged_wholes,
    sum(charged_nano % 1000000000)::bigint AS charged_rests,
    sum(provider_cost_nano / 1000000000)::bigint AS provider_cost_wholes,
    sum(provider_cost_nano % 1000000000)::bigint AS provider_cost_rests,
    sum(reported)::bigint AS reported,
    sum(reported_nano / 1000000000)::bigint AS reported_wholes,
    sum(reported_nano % 1000000000)::bigint AS reported_rests,
    sum(compared)::bigint AS compared,
    sum(difference_nano / 1000000000)::bigint AS difference_wholes,
    sum(difference_nano % 1000000000)::bigint AS difference_rests
FROM daily GROUP BY day, model, provider;
