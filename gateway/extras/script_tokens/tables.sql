-- Scripts that use the console.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('operator', 'accounts', 'read')),
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
