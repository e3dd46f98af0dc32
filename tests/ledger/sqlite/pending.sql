-- A request in flight, what an operator has added, and a charge that is not in the sums yet.
INSERT INTO requests (id, account_id, key_id, model, provider, stream, hold_nano, price_id,
    state, outcome, attempts, input_tokens, cached_input_tokens, cache_write_tokens,
    cache_write_1h_tokens, output_tokens, cost_nano, estimated, started_ms)
SELECT 'req_now', account_id, key_id, model, provider, stream, hold_nano, price_id, 'pending',
    'pending', 0, 0, 0, 0, 0, 0, 0, 0, started_ms FROM requests LIMIT 1;
INSERT INTO calls_by_account SELECT account_id, id, key_id, model FROM requests
    WHERE id = 'req_now';
INSERT INTO calls_by_provider SELECT provider, id, account_id FROM requests
    WHERE id = 'req_now';
INSERT INTO calls_by_model SELECT model, id FROM requests WHERE id = 'req_now';
CREATE TABLE notes (account_id INTEGER REFERENCES accounts, said TEXT) STRICT;
CREATE VIEW spent AS SELECT account_id, sum(cost_nano) FROM requests GROUP BY 1;
INSERT INTO notes SELECT id, 'mine' FROM accounts LIMIT 1;
UPDATE folded SET entry_id = (SELECT max(id) - 1 FROM entries);
DELETE FROM entries_by_account WHERE id > (SELECT entry_id FROM folded);
UPDATE keys SET spent_nano = spent_nano - cost_nano FROM unfolded WHERE key_id = keys.id;
UPDATE hourly SET requests = requests - 1,
    input_tokens = hourly.input_tokens - unfolded.input_tokens,
    cached_input_tokens = hourly.cached_input_tokens - unfolded.cached_input_tokens,
    cache_write_tokens = hourly.cache_write_tokens - unfolded.cache_write_tokens,
    output_tokens = hourly.output_tokens - unfolded.output_tokens,
    cost_nano = hourly.cost_nano - unfolded.cost_nano
FROM unfolded WHERE hour = ended_ms / 3600000 AND unfolded.key_id = hourly.key_id
    AND unfolded.model = hourly.model;
