-- Statements of `alerts`. An INSERT of many rows has no values: they are put in behind VALUES.

--: raise
INSERT INTO alerts (id, key, channel, kind, account_id, body, created_ms, next_try_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key, channel) DO NOTHING;

--: forget
DELETE FROM alerts WHERE created_ms < ? AND next_try_ms IS NULL;

--: conditions
SELECT json_group_array(subject) FROM alert_conditions WHERE kind = ?;

-- Of two processes that see the same, one begins or ends it: it is the one that tells.
--: begin
INSERT INTO alert_conditions (kind, subject, since_ms) VALUES (?, ?, ?)
ON CONFLICT (kind, subject) DO NOTHING;

--: end
DELETE FROM alert_conditions WHERE kind = ? AND subject = ?;

-- An account that never had an entry has not fallen; its first one is no charge.
--: fallen
SELECT json_group_array(json_array(id, name, balance_nano, threshold)) FROM (
    SELECT accounts.id, name, balance_nano,
        coalesce(alert_hooks.low_balance_nano, :default) AS threshold
    FROM accounts LEFT JOIN alert_hooks ON alert_hooks.account_id = accounts.id
    WHERE balance_nano < coalesce(alert_hooks.low_balance_nano, :default) AND suspended = 0
        AND EXISTS (
            SELECT 1 FROM entries WHERE entries.account_id = accounts.id AND kind <> 'charge'
        )
        AND NOT EXISTS (
            SELECT 1 FROM alert_conditions
            WHERE kind = 'low_balance' AND subject = CAST(accounts.id AS TEXT)
        )
    ORDER BY accounts.id LIMIT :most
) AS fallen;

-- Subjects of other kinds are no numbers, and PostgreSQL may compare before it looks at the kind.
--: risen
SELECT json_group_array(subject) FROM alert_conditions
JOIN accounts ON accounts.id = CASE kind WHEN 'low_balance' THEN CAST(subject AS BIGINT) END
LEFT JOIN alert_hooks ON alert_hooks.account_id = accounts.id
WHERE kind = 'low_balance' AND (
    coalesce(alert_hooks.low_balance_nano, :default) IS NULL
    OR balance_nano >= coalesce(alert_hooks.low_balance_nano, :default)
);

-- The first of each receiver come first, and the operator's before those of holders.
--: due
SELECT json_group_array(json_array(
    place, channel = 'holder', next_try_ms,
    id, channel, account_id, body, created_ms, attempts, url, secret, low_balance_nano
))
FROM (
    SELECT alerts.*, url, secret, low_balance_nano, row_number() OVER (
        PARTITION BY channel, CASE channel WHEN 'holder' THEN alerts.account_id ELSE 0 END
        ORDER BY next_try_ms, id
    ) AS place
    FROM alerts LEFT JOIN alert_hooks ON alert_hooks.account_id = alerts.account_id
    WHERE next_try_ms <= :now
) AS due
WHERE place <= :most;

--: latest
SELECT json_group_array(json_array(
    id, channel, kind, body, created_ms, next_try_ms, attempts, delivered_ms, reason
))
FROM (
    SELECT * FROM alerts
    WHERE CASE WHEN :account IS NULL THEN channel <> 'holder'
        ELSE channel = 'holder' AND account_id = :account END
    ORDER BY created_ms DESC, id DESC LIMIT :limit
) AS latest;

--: delivered
UPDATE alerts SET attempts = attempts + 1, delivered_ms = ?, next_try_ms = NULL, reason = NULL
WHERE id = ?;

--: failed
UPDATE alerts SET attempts = attempts + 1, next_try_ms = ?, reason = ?
WHERE id = ? AND delivered_ms IS NULL;

--: claim
UPDATE alerts SET next_try_ms = ? WHERE id = ? AND next_try_ms <= ?;

--: hook
SELECT url, secret, low_balance_nano FROM alert_hooks WHERE account_id = ?;

--: set hook
INSERT INTO alert_hooks (account_id, url, secret, low_balance_nano) VALUES (?, ?, ?, ?)
ON CONFLICT (account_id) DO UPDATE SET url = excluded.url, secret = excluded.secret,
    low_balance_nano = excluded.low_balance_nano;

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
    FROM refusals WHERE hour >= :hour AND (:account IS NULL OR account_id = :account)
) AS ranked LEFT JOIN accounts ON accounts.id = account_id
WHERE place = 1;

--: refused
SELECT json_group_array(json_array(request_id, name, refused_ms, code, model))
FROM (
    SELECT request_id, account_id, refused_ms, code, model FROM refused
    WHERE request_id BETWEEN :first AND :last
        AND (:account IS NULL OR account_id = :account)
    ORDER BY request_id DESC LIMIT :limit
) AS latest JOIN accounts ON accounts.id = account_id;

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
    FROM upstream_calls GROUP BY provider, upstream_model
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
    WHERE failed_ms IS NOT NULL GROUP BY provider, upstream_model
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
