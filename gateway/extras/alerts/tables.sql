-- What operators and holders are told of. It is no part of the books.

-- What an account's holder chose.
CREATE TABLE alert_hooks (
    account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
    -- NULL: this account is told by the console alone.
    url TEXT,
    -- The key of the signature: it has to be known in the clear.
    secret TEXT,
    -- NULL: the threshold of the configuration.
    low_balance_nano INTEGER CHECK (low_balance_nano >= 0),
    CHECK ((url IS NULL) = (secret IS NULL))
) STRICT;

-- What is wrong just now and was told, so that it is told once.
CREATE TABLE alert_conditions (
    kind TEXT NOT NULL,
    -- An account's id, a provider's name.
    subject TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;

-- One row for each receiver of an alert.
CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    -- The occurrence, which is raised once for each channel.
    key TEXT NOT NULL,
    channel TEXT NOT NULL CHECK (channel IN ('webhook', 'command', 'holder')),
    kind TEXT NOT NULL,
    -- The account that it is about, or NULL.
    account_id INTEGER REFERENCES accounts (id),
    -- What is sent.
    body TEXT NOT NULL CHECK (json_valid(body)),
    created_ms INTEGER NOT NULL,
    -- NULL: it is delivered, or given up.
    next_try_ms INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    delivered_ms INTEGER,
    -- Why the last try failed.
    reason TEXT,
    UNIQUE (key, channel),
    CHECK (channel <> 'holder' OR account_id NOT NULL),
    CHECK (delivered_ms IS NULL OR next_try_ms IS NULL)
) STRICT;

CREATE INDEX alerts_due ON alerts (next_try_ms) WHERE next_try_ms NOT NULL;

CREATE INDEX alerts_by_time ON alerts (created_ms);

CREATE INDEX alerts_by_account ON alerts (account_id, created_ms) WHERE channel = 'holder';
