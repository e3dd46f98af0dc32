-- Statements of `books`: events.

--: last event
SELECT id, at_ms, actor, action, account, target, detail, address FROM events
WHERE action = :action AND (:address IS NULL OR address = :address)
ORDER BY id DESC LIMIT 1;
