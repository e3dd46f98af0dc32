"""Rows of version 11 that a plain history lacks."""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = "'req_cut'"
_PRICES: Final = """
    input_price_nano, cached_input_price_nano, cache_write_price_nano, output_price_nano,
    request_price_nano
"""
_BEGUN: Final = "id, account_id, key_id, model, provider, stream, hold_nano, started_ms"
_USED: Final = """
    input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano, estimated,
    attempts
"""
MORE: Final = f"""
    INSERT INTO accounts (name, operator, suspended, balance_nano, created_ms)
    VALUES ('idle', 1, 1, 7, 5);
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, idempotency_key,
        note, created_ms) VALUES (2, 'credit', 7, 7, 'paid-1', 'cash', 6);
    INSERT INTO requests ({_BEGUN}, {_USED}, {_PRICES}, state, outcome, ended_ms)
    SELECT {INTERRUPTED}, account_id, key_id, model, provider, stream, hold_nano, started_ms,
        0, 0, 0, 0, 0, 0, 0, 150, 75, 150, 600, 0, 'voided', 'interrupted', ended_ms
    FROM requests WHERE state = 'posted' LIMIT 1;
    INSERT INTO requests ({_BEGUN}, {_USED}, {_PRICES}, state, outcome)
    SELECT 'req_now', account_id, key_id, model, provider, stream, hold_nano, started_ms,
        0, 0, 0, 0, 0, 0, 0, 150, 75, 150, 600, 0, 'pending', 'pending'
    FROM requests WHERE state = 'posted' LIMIT 1;
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id, note,
        created_ms)
    SELECT id, 'correction', -5, balance_nano - 5, {INTERRUPTED}, 'it was delivered', 9
    FROM accounts WHERE id = 1;
    UPDATE accounts SET balance_nano = balance_nano - 5 WHERE id = 1;

    -- A key that was rotated twice, and one that ended.
    UPDATE keys SET created_ms = created_ms + substr(id, -1);
    UPDATE keys SET cap_nano = 5000000000, replaced_by = 'key_000000000002', expires_ms = 6
    WHERE id = 'key_000000000001';
    UPDATE keys SET cap_nano = 3000000000, replaced_by = 'key_000000000003'
    WHERE id = 'key_000000000002';
    UPDATE keys SET cap_nano = 1000000000 WHERE id = 'key_000000000003';
    UPDATE keys SET models = '["vendor/model-00"]', revoked_ms = 7, concurrency = 0
    WHERE id = 'key_000000000000';
    INSERT INTO changes (kind, id) VALUES ('account', '1');
    INSERT INTO checkpoints (entry_id, created_ms) VALUES (3, 4);

    -- Requests under a rule, with searches, and with writes to a cache for an hour: at their cost.
    DROP TRIGGER requests_settle_once;
    UPDATE requests SET price_rule = 'input_above 200000, speed fast'
    WHERE id IN (SELECT id FROM requests WHERE state = 'posted' ORDER BY id LIMIT 3);
    UPDATE requests SET
        price_rule = 'speed "fast" ä', input_price_nano = 0, cached_input_price_nano = 0,
        cache_write_price_nano = 0, output_price_nano = 0, web_searches = 2,
        web_search_price_nano = 1000, request_price_nano = cost_nano - 2,
        provider_cost_nano = 4, reported_cost_nano = 5
    WHERE id = (SELECT max(id) FROM requests WHERE state = 'posted');
    UPDATE requests SET
        cache_write_1h_tokens = cache_write_tokens, cache_write_tokens = 0,
        cache_write_1h_price_nano = cache_write_price_nano, cache_write_price_nano = 7
    WHERE id = (SELECT min(id) FROM requests WHERE state = 'posted' AND cache_write_tokens > 0);
    INSERT INTO daily_costs
    SELECT account_id, ended_ms / 86400000, model, key_id, 1, cost_nano, 4, 1, 5, 1, 1
    FROM requests WHERE provider_cost_nano NOT NULL;
    INSERT INTO sessions VALUES ('s', 1, zeroblob(32), 'link', 'Firefox', '::1', 1, 2, 3);
    INSERT INTO replays VALUES (1, '/route', 'key', zeroblob(32), 201, x'7b7d', 4);
    DELETE FROM hourly;
    DELETE FROM daily;
"""
"""An idempotent entry, crashed and pending requests, rotated keys."""
