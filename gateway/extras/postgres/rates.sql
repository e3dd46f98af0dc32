-- The rate of an account, or of a key, before the next request: when each of its buckets will be full,
-- in microseconds. A bucket holds the amount of one minute and refills evenly. One whose limit changed
-- is full. `terms` are requests and tokens per minute, and requests at once; 0 is no limit.
CREATE OR REPLACE FUNCTION read_rate(of_account BIGINT, of_key TEXT, terms BIGINT[])
RETURNS rates LANGUAGE plpgsql AS $$
DECLARE
    rate rates;
BEGIN
    IF terms[1] > 0 OR terms[2] > 0 THEN
        SELECT * INTO rate FROM rates WHERE account_id = of_account AND key_id = of_key;
        IF rate.requests_limit IS DISTINCT FROM terms[1] THEN
            rate.requests_full_us := 0;
        END IF;
        IF rate.tokens_limit IS DISTINCT FROM terms[2] THEN
            rate.tokens_full_us := 0;
        END IF;
        rate.account_id := of_account;
        rate.key_id := of_key;
        rate.requests_limit := terms[1];
        rate.tokens_limit := terms[2];
    END IF;
    RETURN rate;
END
$$;

-- Return why one more request exceeds a rate; NULL if it fits. A full bucket takes any amount.
CREATE OR REPLACE FUNCTION find_rate_refusal(
    owner TEXT, terms BIGINT[], flying BIGINT, rate rates, expected_tokens BIGINT, at_us BIGINT
) RETURNS JSON LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    wait_us BIGINT;
BEGIN
    IF terms[3] > 0 AND flying >= terms[3] THEN
        RETURN json_build_array('concurrency', owner, terms[3], 0);
    END IF;
    IF terms[1] > 0 THEN
        wait_us := greatest(rate.requests_full_us - at_us, 0) + 60000000 / terms[1] - 60000000;
        IF wait_us > 0 THEN
            RETURN json_build_array('requests', owner, terms[1], wait_us);
        END IF;
    END IF;
    IF terms[2] > 0 THEN
        wait_us := greatest(rate.tokens_full_us - at_us, 0)
            + least(expected_tokens, terms[2]) * 60000000 / terms[2] - 60000000;
        IF wait_us > 0 THEN
            RETURN json_build_array('tokens', owner, terms[2], wait_us);
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- Count one more request of so many tokens.
CREATE OR REPLACE FUNCTION use_rate(INOUT rate rates, tokens BIGINT, at_us BIGINT)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    rate.requests_full_us := greatest(rate.requests_full_us, at_us)
        + CASE WHEN rate.requests_limit > 0 THEN 60000000 / rate.requests_limit ELSE 0 END;
    rate.tokens_full_us := greatest(rate.tokens_full_us, at_us)
        + CASE WHEN rate.tokens_limit > 0 THEN tokens * 60000000 / rate.tokens_limit ELSE 0 END;
END
$$;

CREATE OR REPLACE FUNCTION write_rates(used rates[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO rates SELECT * FROM unnest(used) AS one WHERE one.account_id IS NOT NULL
    ON CONFLICT (account_id, key_id) DO UPDATE SET
        requests_limit = excluded.requests_limit, requests_full_us = excluded.requests_full_us,
        tokens_limit = excluded.tokens_limit, tokens_full_us = excluded.tokens_full_us;
END
$$;

-- Replace the tokens that were expected of requests by those that were used.
CREATE OR REPLACE FUNCTION correct_rates(ended requests[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rates SET tokens_full_us = tokens_full_us + more * 60000000 / tokens_limit
    FROM (
        SELECT account_id, of.key_id, sum(
            input_tokens + cached_input_tokens + cache_write_tokens + cache_write_1h_tokens
            + output_tokens - expected_tokens
        )::bigint AS more
        FROM unnest(ended) AS request
        CROSS JOIN LATERAL (VALUES (request.key_id), ('')) AS of (key_id)
        WHERE expected_tokens > 0 GROUP BY 1, 2
    ) AS sums
    WHERE rates.account_id = sums.account_id AND rates.key_id = sums.key_id AND tokens_limit > 0;
END
$$;
