-- Schema version 7: scripts that use the console by a token, sessions that a proxy vouches for.

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('operator', 'accounts', 'read')),
    -- SHA-256 of its 256 random bits; the token itself is kept nowhere.
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    last4 TEXT NOT NULL CHECK (length(last4) = 4),
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    last_used_ms INTEGER
) STRICT;

-- A name can be given again once its token is revoked.
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_ms IS NULL;

-- A request can be repeated by an account or by a token, so the table is made anew: a token has no
-- account. `caller` is an account's number, or `token` and a token's name.
CREATE TABLE replays_2 (
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

INSERT INTO replays_2 (caller, route, idempotency_key, request, status, reply, created_ms)
SELECT CAST(account_id AS TEXT), route, idempotency_key, request, status, reply, created_ms
FROM replays;

DROP TABLE replays;

ALTER TABLE replays_2 RENAME TO replays;

-- One more way to open a session; SQLite cannot alter a CHECK.
CREATE TABLE sessions_2 (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    opened_by TEXT NOT NULL CHECK (opened_by IN ('password', 'link', 'identity header')),
    device TEXT NOT NULL,
    address TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    -- Whatever happens; it ends earlier when nobody uses it.
    expires_ms INTEGER NOT NULL
) STRICT;

INSERT INTO sessions_2 (
    id, account_id, digest, opened_by, device, address, created_ms, last_seen_ms, expires_ms
)
SELECT id, account_id, digest, opened_by, device, address, created_ms, last_seen_ms, expires_ms
FROM sessions;

DROP TABLE sessions;

ALTER TABLE sessions_2 RENAME TO sessions;

CREATE INDEX sessions_by_account ON sessions (account_id);
