-- The tables of version 1, taken to version 2: prices by id, extras, lines of keys.

CREATE TABLE prices (
    id BIGINT PRIMARY KEY,
    price json_text NOT NULL
);

-- A function of another shape must not stay beside the present one.
DROP FUNCTION run_round(BIGINT, BIGINT, JSON, JSON, JSON, BIGINT);

ALTER TABLE keys ADD COLUMN origin_id TEXT COLLATE "C" REFERENCES keys (id) DEFERRABLE;

WITH RECURSIVE lines (id, origin_id) AS (
    SELECT id, id FROM keys
    WHERE id NOT IN (SELECT replaced_by FROM keys WHERE replaced_by IS NOT NULL)
    UNION ALL
    SELECT replaced_by, lines.origin_id FROM lines JOIN keys ON keys.id = lines.id
    WHERE replaced_by IS NOT NULL
), members AS (
    SELECT keys.id, lines.origin_id, sum(spent_nano) OVER line AS spent_of_line_nano,
        sum(held_nano) OVER line AS held_of_line_nano,
        sum(spent_nano) OVER (line ORDER BY created_ms, keys.id) - spent_nano AS before_nano
    FROM lines JOIN keys ON keys.id = lines.id
    WINDOW line AS (PARTITION BY lines.origin_id)
)
-- Rotated keys had caps of their own, each with what was left of the one before. A key keeps its cap,
-- plus what the keys before it spent, as the sum of the line counts against it now.
UPDATE keys SET
    origin_id = members.origin_id, cap_nano = cap_nano + before_nano,
    spent_nano = CASE WHEN members.id = members.origin_id THEN spent_of_line_nano ELSE 0 END,
    held_nano = CASE WHEN members.id = members.origin_id THEN held_of_line_nano ELSE 0 END
FROM members WHERE members.id = keys.id;

ALTER TABLE keys ALTER COLUMN origin_id SET NOT NULL;

DROP TRIGGER requests_settle_once ON requests;

ALTER TABLE requests ADD COLUMN price_id BIGINT, ADD COLUMN extras json_text;

CREATE FUNCTION write_price(one requests) RETURNS TEXT LANGUAGE sql AS $$
    SELECT '{' || CASE WHEN one.price_rule = '' THEN '' ELSE
            '"rule":' || to_json(one.price_rule) || ','
        END || format(
            '"input":%s,"output":%s,"cached_input":%s,"cache_write":%s,"request":%s,'
            '"cache_write_1h":%s,"web_search":%s}',
            one.input_price_nano, one.output_price_nano, one.cached_input_price_nano,
            one.cache_write_price_nano, one.request_price_nano, one.cache_write_1h_price_nano,
            one.web_search_price_nano
        )
$$;

CREATE FUNCTION find_price_id(price TEXT) RETURNS BIGINT LANGUAGE sql AS $$
    SELECT (('x' || left(encode(sha256(convert_to(price, 'UTF8')), 'hex'), 16))::bit(64) >> 1)::bigint
$$;

UPDATE requests SET
    price_id = find_price_id(write_price(requests)),
    extras = CASE WHEN web_searches > 0 THEN '{"tools":{"web_search":' || web_searches || '}}' END;

INSERT INTO prices
SELECT DISTINCT ON (price_id) price_id, write_price(requests) FROM requests;

DROP FUNCTION write_price(requests);

DROP FUNCTION find_price_id(TEXT);

ALTER TABLE requests
ALTER COLUMN price_id SET NOT NULL,
DROP COLUMN input_price_nano, DROP COLUMN cached_input_price_nano,
DROP COLUMN cache_write_price_nano, DROP COLUMN output_price_nano,
DROP COLUMN request_price_nano, DROP COLUMN cache_write_1h_price_nano,
DROP COLUMN web_search_price_nano, DROP COLUMN web_searches, DROP COLUMN price_rule;

CREATE TRIGGER requests_settle_once BEFORE UPDATE ON requests
FOR EACH ROW WHEN (OLD.state <> 'pending') EXECUTE FUNCTION refuse_second_end('requests');
