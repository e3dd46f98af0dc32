-- Months as partitions. A month is named by its first day, and its bounds are of UTC.

CREATE OR REPLACE FUNCTION find_first_id(at TIMESTAMPTZ) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT 'req_' || lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')
$$;

-- Make the partitions of the month of `at` and of so many that follow, those that are missing.
CREATE OR REPLACE FUNCTION make_months(at TIMESTAMPTZ, following INT) RETURNS INT
LANGUAGE plpgsql AS $$
DECLARE
    made INT := 0;
    first TIMESTAMP;
    starts_at TIMESTAMPTZ;
    ends_at TIMESTAMPTZ;
    suffix TEXT;
BEGIN
    FOR month IN 0..following LOOP
        first := date_trunc('month', at AT TIME ZONE 'UTC') + make_interval(months => month);
        starts_at := first AT TIME ZONE 'UTC';
        ends_at := (first + INTERVAL '1 month') AT TIME ZONE 'UTC';
        suffix := to_char(first, 'YYYY_MM');
        CONTINUE WHEN to_regclass('requests_' || suffix) IS NOT NULL;
        PERFORM pg_advisory_xact_lock(4746, 0);
        CONTINUE WHEN EXISTS (  -- another node did it; `to_regclass` may not know that yet
            SELECT 1 FROM pg_class WHERE relname = 'requests_' || suffix
                AND relnamespace = current_schema()::regnamespace
        );
        BEGIN
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF requests FOR VALUES FROM (%L) TO (%L)',
                'requests_' || suffix, find_first_id(starts_at), find_first_id(ends_at)
            );
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF entries FOR VALUES FROM (%L) TO (%L)',
                'entries_' || suffix, (extract(epoch FROM starts_at) * 1000)::bigint,
                (extract(epoch FROM ends_at) * 1000)::bigint
            );
            EXECUTE format(
                'CREATE UNIQUE INDEX ON %I (request_id) WHERE kind = ''charge''',
                'entries_' || suffix
            );
            made := made + 1;
        EXCEPTION WHEN check_violation THEN
            -- Rows came before the partition, so those of this month stay in the one for all others.
            NULL;
        END;
    END LOOP;
    RETURN made;
END
$$;

-- Keep the requests of so many months, that of `at` included, and drop those of older ones; return how
-- many months were dropped. Their entries and sums stay.
CREATE OR REPLACE FUNCTION drop_months(at TIMESTAMPTZ, kept INT) RETURNS INT
LANGUAGE plpgsql AS $$
DECLARE
    dropped INT := 0;
    old TEXT;
    is_in_use BOOLEAN;
    oldest TEXT := 'requests_' || to_char(
        date_trunc('month', at AT TIME ZONE 'UTC') - make_interval(months => kept - 1), 'YYYY_MM'
    );
BEGIN
    PERFORM pg_advisory_xact_lock(4746, 0);
    FOR old IN
        SELECT relid::regclass::text FROM pg_partition_tree('requests')
        WHERE isleaf AND relid::regclass::text < oldest COLLATE "C"
            AND relid::regclass::text <> 'requests_other'
        ORDER BY 1
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %s WHERE state = ''pending'')', old)
        INTO is_in_use;
        CONTINUE WHEN is_in_use; -- their holds would never be released
        EXECUTE format('DROP TABLE %s', old);
        -- Requests that were under way at the end of the month count in hours of the next one.
        UPDATE retention SET kept_from_ms = greatest(kept_from_ms, (
            extract(epoch FROM (
                to_date(right(old, 7), 'YYYY_MM') + INTERVAL '1 month 1 day'
            ) AT TIME ZONE 'UTC') * 1000
        )::bigint);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
