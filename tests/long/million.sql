-- A long history of one account in SQLite.

INSERT OR IGNORE INTO prices (id, price) VALUES (:price_id, :price);

WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :keys - 1
)
INSERT INTO keys (id, origin_id, account_id, name, digest, last4, created_ms)
SELECT printf('key_%012d', n), printf('key_%012d', n), :account_id, 'key ' || n,
    CAST(printf('%032d', :account_id * 1000000 + n) AS BLOB), printf('%04d', n), :begin_ms
FROM numbers;

WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :requests - 1
),
chances (n, chance) AS MATERIALIZED (
    SELECT n, (n * 2654435761 >> 7) & 0xffffff FROM numbers
),
mixed (n, chance, key, started_ms) AS MATERIALIZED (
    SELECT n, chance, chance / 64 % :keys,
        :begin_ms + n * (:end_ms - :begin_ms - 10000) / :requests
    FROM chances
)
INSERT INTO requests (
    id, account_id, key_id, model, provider, stream, hold_nano, state,
    input_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
    price_id, cost_nano, estimated, outcome, status, attempts,
    started_ms, first_byte_ms, ended_ms
)
SELECT printf('req_%012x%016x', started_ms, n), :account_id, printf('key_%012d', key),
    printf('vendor/model-%02d', (key + chance / 4096 % :models_per_key) % :models),
    iif(n % 100003, 'vendor', 'fallback'), chance % 2, 1000000,
    iif(chance % 50, 'posted', 'voided'),
    chance % 5000, chance % 300, chance % 7, 0, chance % 900, :price_id,
    iif(chance % 50, 3000 * (chance % 5000) + 300 * (chance % 300) + 3750 * (chance % 7)
        + 15000 * (chance % 900), 0), chance % 90 = 0,
    iif(chance % 50, 'complete', 'upstream_error'), iif(chance % 50, 200, 502), 1,
    started_ms, 100 + chance % 900, started_ms + 1000 + chance % 8000
FROM mixed;

WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :moves - 1
),
moves (n, kind, amount_nano) AS (
    SELECT n, CASE n % 3 WHEN 0 THEN 'credit' WHEN 1 THEN 'code' ELSE 'correction' END,
        CASE n % 3 WHEN 2 THEN -n ELSE :credit_nano END
    FROM numbers
)
INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, note, created_ms)
SELECT :account_id, kind, amount_nano, sum(amount_nano) OVER (ORDER BY n), 'move ' || n, :begin_ms + n
FROM moves ORDER BY n;
