-- Replies to console requests that carried an Idempotency-Key, committed with their effect. `caller`
-- is an account's number, also with `/` and a person's name, or `token` and a token's name.
CREATE TABLE replays (
    caller TEXT NOT NULL,
    route TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    -- SHA-256 of the request.
    request BLOB NOT NULL CHECK (length(request) = 32),
    status INTEGER NOT NULL,
    reply BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (caller, route, idempotency_key)
) STRICT, WITHOUT ROWID;
