-- Statements of `snapshot`. Ids of requests are ordered by time, so `:first` bounds what is looked at.
-- Amounts are summed in two parts, see `database.PART`.

--: in flight
SELECT requests.id, accounts.name, model, provider, started_ms
FROM requests JOIN accounts ON accounts.id = account_id
WHERE state = 'pending' ORDER BY started_ms, requests.id LIMIT :limit;

--: count in flight
SELECT provider, count(*) FROM requests WHERE state = 'pending' GROUP BY provider;

--: rates
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(cached_input_tokens), 0),
    coalesce(sum(cache_write_tokens + cache_write_1h_tokens), 0), coalesce(sum(output_tokens), 0),
    coalesce(sum(cost_nano / 1000000000), 0), coalesce(sum(cost_nano % 1000000000), 0)
FROM requests WHERE id >= :first AND ended_ms > :since;

--: slowest
SELECT requests.id, accounts.name, model, provider, started_ms, first_byte_ms,
    ended_ms - started_ms AS total_ms
FROM requests JOIN accounts ON accounts.id = account_id
WHERE requests.id >= :first AND outcome = 'complete' AND first_byte_ms IS NOT NULL
ORDER BY total_ms DESC, requests.id LIMIT :limit;

--: lowest balances
SELECT name, balance_nano, (
    SELECT sum(cost_nano / 1000000000) FROM hourly
    WHERE hourly.account_id = accounts.id AND hour >= :hour
), (
    SELECT sum(cost_nano % 1000000000) FROM hourly
    WHERE hourly.account_id = accounts.id AND hour >= :hour
)
FROM accounts WHERE EXISTS (
    SELECT 1 FROM hourly WHERE hourly.account_id = accounts.id AND hour >= :hour
)
ORDER BY balance_nano, accounts.id LIMIT :limit;
