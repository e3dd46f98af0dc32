-- Statements of `book`.

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

-- The first of each receiver come first, and the operator's before those of holders. Those of accounts, which
-- may be thousands at once, come behind the others: they would hold up that of an outage for hours.
--: due
SELECT json_group_array(json_array(
    place, channel = 'holder', next_try_ms,
    id, channel, account_id, body, created_ms, attempts, url, secret, low_balance_nano
))
FROM (
    SELECT alerts.*, url, secret, low_balance_nano, row_number() OVER (
        PARTITION BY channel, CASE channel WHEN 'holder' THEN alerts.account_id ELSE 0 END
        ORDER BY kind IN ('low_balance', 'budget'), next_try_ms, id
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

--: events after
SELECT id, at_ms, actor, action, account, target, detail, address FROM events
WHERE action = :action AND id > :after AND at_ms >= :since ORDER BY id LIMIT :limit;
