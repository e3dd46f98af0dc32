-- A long history of many accounts in PostgreSQL.

SELECT make_months(at, 0) FROM generate_series(
    date_trunc('month', to_timestamp(:begin_ms / 1000)), to_timestamp(:end_ms / 1000),
    INTERVAL '1 month'
) AS at;

INSERT INTO prices (id, price) VALUES (:price_id, :price);

INSERT INTO accounts (name, created_ms)
SELECT CASE n WHEN 1 THEN :account ELSE 'account-' || n END, :begin_ms
FROM generate_series(1, :accounts) AS n ORDER BY n;

INSERT INTO keys (id, origin_id, account_id, name, digest, last4, created_ms)
SELECT 'key_' || lpad(n::text, 12, '0'), 'key_' || lpad(n::text, 12, '0'), greatest(n - :keys + 2, 1), 'key ' || n,
    lpad(n::text, 32, '0')::bytea, lpad((n % 10000)::text, 4, '0'), :begin_ms
FROM generate_series(0, :keys + :accounts - 2) AS n;

WITH chances AS MATERIALIZED (
    SELECT n, (n * 2654435761 >> 7) & 16777215 AS chance
    FROM generate_series(0::bigint, :requests - 1) AS n
), mixed AS MATERIALIZED (
    SELECT n, chance, CASE WHEN chance % 2 = 0 OR :accounts = 1 THEN chance / 64 % :keys
        ELSE :keys + chance / 64 % greatest(:accounts - 1, 1) END AS key,
        :begin_ms + n * (:end_ms - :begin_ms - 10000) / :requests AS started_ms
    FROM chances
), chosen AS MATERIALIZED (
    SELECT *, (key + chance / 4096 % :models_per_key) % :models AS model, chance % 49 = 0 AS failed
    FROM mixed
)
INSERT INTO requests (
    id, account_id, key_id, model, provider, stream, hold_nano, state,
    input_tokens, cached_input_tokens, cache_write_tokens, output_tokens,
    price_id, cost_nano, estimated, outcome, status, attempts,
    started_ms, first_byte_ms, ended_ms
)
SELECT 'req_' || lpad(to_hex(started_ms), 12, '0') || lpad(to_hex(n), 16, '0'),
    greatest(key - :keys + 2, 1), 'key_' || lpad(key::text, 12, '0'),
    'vendor/model-' || lpad(model::text, 2, '0'),
    CASE WHEN n % 100003 = 0 THEN 'fallback' ELSE ('{vendor,maker,cloud}'::text[])[1 + model % 3] END,
    chance / 8 % 2, 1000000, CASE WHEN failed THEN 'voided' ELSE 'posted' END,
    1 + chance % 5000, chance % 300, chance % 7, chance % 900, :price_id,
    CASE WHEN failed THEN 0 ELSE 3000 * (1 + chance % 5000) + 300 * (chance % 300)
        + 3750 * (chance % 7) + 15000 * (chance % 900) END, CASE chance % 90 WHEN 0 THEN 1 ELSE 0 END,
    CASE WHEN failed THEN 'upstream_error' ELSE 'complete' END,
    CASE WHEN failed THEN 502 ELSE 200 END, 1,
    started_ms, 100 + chance % 900, started_ms + 1000 + chance % 8000
FROM chosen ORDER BY n;

INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, note, created_ms)
SELECT account_id, kind, amount_nano, sum(amount_nano) OVER (PARTITION BY account_id ORDER BY n),
    'move ' || n, :begin_ms + n
FROM (
    SELECT 1 AS account_id, n, (CASE n % 3
        WHEN 0 THEN '{credit}' WHEN 1 THEN '{code}' ELSE '{correction}' END::text[])[1] AS kind,
        CASE n % 3 WHEN 2 THEN -n ELSE :credit_nano END AS amount_nano
    FROM generate_series(0, :moves - 1) AS n
    UNION ALL SELECT id, 0, 'credit', :credit_nano FROM accounts WHERE id > 1
) AS moves ORDER BY account_id, n;

INSERT INTO codes (
    id, batch, digest, last4, amount_nano, note, created_by, created_ms,
    redeemed_ms, redeemed_by, entry_id
)
SELECT 'code_' || id, 'batch', lpad(id::text, 32, '0')::bytea, lpad((id % 10000)::text, 4, '0'),
    amount_nano, '', 'nobody', created_ms, created_ms, account_id, id
FROM entries WHERE kind = 'code';

INSERT INTO events (at_ms, actor, action, account, target, detail)
SELECT :begin_ms + n, 'operator', ('{account.edit,key.add,key.edit,signin}'::text[])[1 + n % 4],
    'account-' || n % :accounts, 'key_' || lpad(n::text, 12, '0'), 'some detail'
FROM generate_series(1, :events) AS n;

INSERT INTO refusals
SELECT hour, 1 + hour * 7 % :accounts, code, 'vendor/model-0' || hour % 10, 9, hour * 3600000,
    'req_' || hour
FROM generate_series(:end_ms / 3600000 - 24 * 31, :end_ms / 3600000) AS hour,
    unnest('{insufficient_balance,rate_limited,model_not_found}'::text[]) AS code;

INSERT INTO upstream_calls (
    slot, provider, upstream_model, calls, failures, failed_ms, failed_request_id,
    failed_status, reason, url
)
SELECT slot, ('{vendor,maker,cloud}'::text[])[1 + model % 3], 'model-' || model, 9, 1,
    slot * 600000, 'req_' || slot, 502, 'status 502', 'https://vendor.example/v1'
FROM generate_series(:end_ms / 600000 - 144 * 31, :end_ms / 600000) AS slot,
    generate_series(0, :models - 1) AS model;

INSERT INTO upstream_failures (failed_ms, request_id, status, reason, url)
SELECT ended_ms, id, 502, 'status 502', 'https://vendor.example/v1' FROM requests
WHERE outcome NOT IN ('pending', 'complete') ORDER BY id DESC LIMIT :failures;
