-- Statements of `book`. An INSERT of many rows has no values: they are put in behind VALUES.

-- What is stored stays, unless the new row is as late or later: several gateways write their sums when
-- they get to it.
--: add refusals
INSERT INTO refusals (hour, account_id, code, model, refused, last_ms, last_request_id)
VALUES
ON CONFLICT (hour, coalesce(account_id, 0), code, model) DO UPDATE SET
    refused = refusals.refused + excluded.refused,
    last_ms = CASE WHEN excluded.last_ms >= coalesce(refusals.last_ms, 0)
        THEN excluded.last_ms ELSE refusals.last_ms END,
    last_request_id = CASE WHEN excluded.last_ms >= coalesce(refusals.last_ms, 0)
        THEN excluded.last_request_id ELSE refusals.last_request_id END;

--: add refused
INSERT INTO refused (request_id, refused_ms, account_id, key_id, code, model)
VALUES
ON CONFLICT (request_id) DO NOTHING;

--: limit refused
DELETE FROM refused WHERE {chosen} AND request_id >= :first AND request_id <= (
    SELECT request_id FROM refused
    WHERE {chosen} AND request_id >= :first AND request_id < :after
    ORDER BY request_id DESC LIMIT 1 OFFSET :kept
);

-- As with refusals, the latest failure stays.
--: add calls
INSERT INTO upstream_calls (slot, provider, upstream_model, calls, failures, failed_ms,
    failed_request_id, failed_status, reason, url)
VALUES
ON CONFLICT (slot, provider, upstream_model) DO UPDATE SET
    calls = upstream_calls.calls + excluded.calls,
    failures = upstream_calls.failures + excluded.failures,
    failed_ms = CASE WHEN excluded.failed_ms >= coalesce(upstream_calls.failed_ms, 0)
        THEN excluded.failed_ms ELSE upstream_calls.failed_ms END,
    failed_request_id = CASE WHEN excluded.failed_ms >= coalesce(upstream_calls.failed_ms, 0)
        THEN excluded.failed_request_id ELSE upstream_calls.failed_request_id END,
    failed_status = CASE WHEN excluded.failed_ms >= coalesce(upstream_calls.failed_ms, 0)
        THEN excluded.failed_status ELSE upstream_calls.failed_status END,
    reason = CASE WHEN excluded.failed_ms >= coalesce(upstream_calls.failed_ms, 0)
        THEN excluded.reason ELSE upstream_calls.reason END,
    url = CASE WHEN excluded.failed_ms >= coalesce(upstream_calls.failed_ms, 0)
        THEN excluded.url ELSE upstream_calls.url END;

--: add failures
INSERT INTO upstream_failures (failed_ms, request_id, status, reason, url, type, code, param, rejected)
VALUES;

--: add latencies
INSERT INTO latencies (scope, hour, account_id, provider, upstream_model, bucket, firsts, totals)
VALUES
ON CONFLICT (scope, hour, account_id, provider, upstream_model, bucket) DO UPDATE SET
    firsts = latencies.firsts + excluded.firsts, totals = latencies.totals + excluded.totals;

--: forget failures
DELETE FROM upstream_failures WHERE rejected = :rejected AND id <= (
    SELECT id FROM upstream_failures WHERE rejected = :rejected
    ORDER BY id DESC LIMIT 1 OFFSET :kept
);

--: refusals
SELECT json_group_array(json_array(name, code, model, refused, last_ms, last_request_id))
FROM (
    SELECT account_id, code, model, last_ms, last_request_id,
        sum(refused) OVER (PARTITION BY account_id, code, model) AS refused,
        row_number() OVER (
            PARTITION BY account_id, code, model ORDER BY last_ms DESC, hour DESC
        ) AS place
    FROM refusals WHERE hour >= :hour AND last_ms >= :since
        AND (:account IS NULL OR account_id = :account)
) AS ranked LEFT JOIN accounts ON accounts.id = account_id
WHERE place = 1;

--: refused
SELECT json_group_array(json_array(
    json_array(request_id, accounts.name, refused_ms, code, model),
    json_array(keys.id, keys.name, keys.last4), json_array(keys.models, accounts.models),
    coalesce(keys.revoked_ms, keys.expires_ms)
))
FROM (
    SELECT request_id, account_id, key_id, refused_ms, code, model FROM refused
    WHERE request_id BETWEEN :first AND :last
        AND (:account IS NULL OR account_id = :account)
    ORDER BY request_id DESC LIMIT :limit
) AS latest JOIN accounts ON accounts.id = latest.account_id
LEFT JOIN keys ON keys.id = latest.key_id;

--: refused by key
SELECT json_group_array(json_array(code, model, keys.id, keys.name, keys.last4, many))
FROM (
    SELECT code, model, key_id, count(*) AS many FROM refused
    WHERE account_id = :account AND request_id >= :first GROUP BY code, model, key_id
) AS sums JOIN keys ON keys.id = key_id;

-- The slots before today are read once an hour, see `_EARLIER`.
--: calls
SELECT json_group_array(json_array(
    sums.provider, sums.upstream_model, hour_calls, hour_failures, day_calls, day_failures,
    calls, failures
))
FROM (
    SELECT provider, upstream_model, max(slot) AS latest,
        coalesce(sum(calls) FILTER (WHERE slot >= :hour), 0) AS hour_calls,
        coalesce(sum(failures) FILTER (WHERE slot >= :hour), 0) AS hour_failures,
        coalesce(sum(calls) FILTER (WHERE slot >= :day), 0) AS day_calls,
        coalesce(sum(failures) FILTER (WHERE slot >= :day), 0) AS day_failures
    FROM upstream_calls WHERE slot >= :first AND slot < :end GROUP BY provider, upstream_model
) AS sums CROSS JOIN upstream_calls ON slot = latest
    AND upstream_calls.provider = sums.provider
    AND upstream_calls.upstream_model = sums.upstream_model;

--: failures
SELECT json_group_array(json_array(
    sums.provider, sums.upstream_model, upstream_calls.failed_ms, failed_request_id,
    failed_status, upstream_calls.reason, upstream_calls.url, coalesce(type, ''),
    coalesce(code, ''), coalesce(param, '')
))
FROM (
    SELECT provider, upstream_model, max(slot) AS latest FROM upstream_calls
    WHERE failed_ms IS NOT NULL AND slot >= :first AND slot < :end
    GROUP BY provider, upstream_model
) AS sums CROSS JOIN upstream_calls ON slot = latest
    AND upstream_calls.provider = sums.provider
    AND upstream_calls.upstream_model = sums.upstream_model
LEFT JOIN upstream_failures AS named ON named.request_id = failed_request_id AND rejected = 0
    AND named.failed_ms = upstream_calls.failed_ms AND named.url = upstream_calls.url;

--: failures of requests
SELECT failed_ms, request_id, status, reason, url, type, code, param, rejected
FROM upstream_failures WHERE request_id BETWEEN :first AND :last ORDER BY id;

--: latencies
SELECT json_group_array(json_array(name, provider, upstream_model, bucket, firsts, totals))
FROM (
    SELECT account_id, provider, upstream_model, bucket, sum(firsts) AS firsts,
        sum(totals) AS totals
    FROM latencies
    WHERE scope = :scope AND hour >= :first AND hour < :end
        AND (:account IS NULL OR account_id = :account)
    GROUP BY account_id, provider, upstream_model, bucket
) AS sums LEFT JOIN accounts ON accounts.id = account_id;

--: refused request
SELECT request_id, refused_ms, code, model FROM refused WHERE request_id = :id AND key_id = :key;
