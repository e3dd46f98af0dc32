-- The periods of budgets, as `gateway.ledger.key_records` has them: days are counted from the epoch in
-- UTC, weeks begin on Monday.

CREATE OR REPLACE FUNCTION first_day(period TEXT, day BIGINT) RETURNS BIGINT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE period
        WHEN 'day' THEN day
        WHEN 'week' THEN day - (day + 3) % 7
        ELSE date_trunc('month', (DATE '1970-01-01' + day::int)::timestamp)::date - DATE '1970-01-01'
    END
$$;

CREATE OR REPLACE FUNCTION end_period(period TEXT, starts_day BIGINT) RETURNS BIGINT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 86400000 * CASE period
        WHEN 'day' THEN starts_day + 1
        WHEN 'week' THEN starts_day + 7
        ELSE (DATE '1970-01-01' + starts_day::int + INTERVAL '1 month')::date - DATE '1970-01-01'
    END
$$;

CREATE OR REPLACE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- The time at which the statement under way came in: what a node counts back from.
CREATE OR REPLACE FUNCTION sent_ms() RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
$$;
