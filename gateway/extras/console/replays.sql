-- Statements of `replays`.

--: find reply
SELECT request, status, reply FROM replays
WHERE caller = ? AND route = ? AND idempotency_key = ?;

--: keep reply
INSERT INTO replays (caller, route, idempotency_key, request, status, reply, created_ms)
VALUES (?, ?, ?, ?, ?, ?, ?);
