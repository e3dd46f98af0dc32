-- Many accounts with keys, in SQLite.

WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :accounts - 1
)
INSERT INTO accounts (name, created_ms) SELECT 'user-' || n, 1 FROM numbers;

WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :keys - 1
)
INSERT INTO keys (id, origin_id, account_id, name, digest, last4, created_ms, models, cap_nano)
SELECT printf('key_of_many_%012d', n), printf('key_of_many_%012d', n), accounts.id, 'key ' || n,
    CAST(printf('many%028d', n) AS BLOB), printf('%04d', n % 10000), 1,
    iif(n % 3, NULL, json_array('vendor/model-' || n % 7)), iif(n % 5, NULL, 1000000)
FROM numbers JOIN accounts ON accounts.name = 'user-' || (n / :each);

-- The checkpoint that an earlier start of the gateway would have written.
INSERT INTO checkpoints (entry_id, created_ms) SELECT max(id), 1 FROM entries;
