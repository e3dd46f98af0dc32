-- Statements of `events`.

--: chosen events
at_ms >= :since AND at_ms < :until AND (:actor IS NULL OR actor LIKE :actor ESCAPE '\')
AND (:kind IS NULL OR action LIKE :kind ESCAPE '\') AND (
    :part IS NULL OR actor LIKE :part ESCAPE '\' OR action LIKE :part ESCAPE '\'
    OR account LIKE :part ESCAPE '\' OR target LIKE :part ESCAPE '\'
);

--: page of events
SELECT json_group_array(json_array(id, at_ms, actor, action, account, target, detail, address))
FROM (
    SELECT * FROM events
    WHERE id < :before AND {chosen}
    ORDER BY id DESC LIMIT :limit
) AS page;

--: count events
SELECT count(*) FROM events WHERE {chosen};
