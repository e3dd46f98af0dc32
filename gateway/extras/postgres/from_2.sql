-- The tables of version 2, taken to version 3: one-time codes, what requests in flight may cost beyond
-- their holds, and nodes that are suspected, or ended with requests left.

CREATE TABLE totp (
    account_id BIGINT PRIMARY KEY REFERENCES accounts (id) DEFERRABLE,
    secret BYTEA NOT NULL CHECK (length(secret) = 20),
    last_step BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    confirmed_ms BIGINT
);

CREATE TABLE recovery_codes (
    digest sha256 PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES totp (account_id) DEFERRABLE
);

CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);

ALTER TABLE accounts ADD COLUMN unheld_nano amount NOT NULL DEFAULT 0;

ALTER TABLE keys ADD COLUMN unheld_nano amount NOT NULL DEFAULT 0;

ALTER TABLE budgets ADD COLUMN unheld_nano amount NOT NULL DEFAULT 0;

ALTER TABLE requests ADD COLUMN unheld_nano amount NOT NULL DEFAULT 0;

ALTER TABLE nodes
ADD COLUMN suspected_at TIMESTAMPTZ, ADD COLUMN has_pending BOOLEAN NOT NULL DEFAULT false;

-- Functions of another shape must not stay beside the present ones.
DROP FUNCTION IF EXISTS run_round(BIGINT, BIGINT, JSON, JSON, JSON, JSON, BIGINT);

DROP FUNCTION take_over(BIGINT, BIGINT, INTERVAL, BIGINT);

DROP FUNCTION insert_requests(BIGINT, JSON, TEXT[], BIGINT);
