-- What version 11 kept in other columns. Its tables are named `before_…` meanwhile; those that are not
-- mentioned here have the same columns.

-- Rotated keys had caps of their own, each with what was left of the one before. A key keeps its cap,
-- plus what the keys before it spent, as the sum of the line counts against it now.
INSERT INTO keys
WITH RECURSIVE lines (id, origin_id) AS (
    SELECT id, id FROM before_keys
    WHERE id NOT IN (SELECT replaced_by FROM before_keys WHERE replaced_by IS NOT NULL)
    UNION ALL
    SELECT before_keys.replaced_by, origin_id
    FROM lines JOIN before_keys ON before_keys.id = lines.id
    WHERE before_keys.replaced_by IS NOT NULL
)
SELECT
    before_keys.id, before_keys.account_id, before_keys.name, before_keys.digest, before_keys.last4,
    before_keys.models, before_keys.requests_per_minute, before_keys.tokens_per_minute,
    before_keys.concurrency,
    iif(
        before_keys.cap_nano IS NULL, NULL,
        before_keys.cap_nano + (
            SELECT coalesce(sum(earlier.spent_nano), 0)
            FROM lines AS others JOIN before_keys AS earlier ON earlier.id = others.id
            WHERE others.origin_id = lines.origin_id
                AND (earlier.created_ms, earlier.id) < (before_keys.created_ms, before_keys.id)
        )
    ),
    lines.origin_id,
    iif(lines.id = lines.origin_id, (
        SELECT sum(member.spent_nano)
        FROM lines AS others JOIN before_keys AS member ON member.id = others.id
        WHERE others.origin_id = lines.origin_id
    ), 0),
    before_keys.created_ms, before_keys.expires_ms, before_keys.revoked_ms,
    before_keys.replaced_by, before_keys.last_used_ms, before_keys.budget_id
FROM lines JOIN before_keys ON before_keys.id = lines.id;

INSERT INTO prices
SELECT DISTINCT price_id(price), price
FROM (
    SELECT write_price(
        price_rule, input_price_nano, output_price_nano, cached_input_price_nano,
        cache_write_price_nano, request_price_nano, cache_write_1h_price_nano,
        web_search_price_nano
    ) AS price
    FROM (
        SELECT DISTINCT
            price_rule, input_price_nano, output_price_nano, cached_input_price_nano,
            cache_write_price_nano, request_price_nano, cache_write_1h_price_nano,
            web_search_price_nano
        FROM before_requests
    )
);

INSERT INTO requests
SELECT
    id, account_id, key_id, budget_id, model, provider, stream, hold_nano,
    price_id(write_price(
        price_rule, input_price_nano, output_price_nano, cached_input_price_nano,
        cache_write_price_nano, request_price_nano, cache_write_1h_price_nano,
        web_search_price_nano
    )),
    state, outcome, status, attempts, input_tokens, cached_input_tokens, cache_write_tokens,
    cache_write_1h_tokens, output_tokens,
    iif(web_searches > 0, json_object('tools', json_object('web_search', web_searches)), NULL), cost_nano, estimated,
    started_ms, first_byte_ms, ended_ms, provider_cost_nano, reported_cost_nano
FROM before_requests ORDER BY rowid;
