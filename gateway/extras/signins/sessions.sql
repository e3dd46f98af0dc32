-- Statements of `sessions`.

--: crowd out
DELETE FROM sessions WHERE account_id = :account AND person = :person AND id NOT IN (
    SELECT id FROM sessions WHERE account_id = :account AND person = :person
    ORDER BY last_seen_ms DESC, created_ms DESC, id LIMIT :most
);

--: set link
INSERT INTO signin_links (account_id, person, digest, created_ms, expires_ms)
VALUES (?, ?, ?, ?, ?) ON CONFLICT (account_id, person) DO UPDATE SET
    digest = excluded.digest, created_ms = excluded.created_ms, expires_ms = excluded.expires_ms;

-- Deleted and read in one statement: of two requests with one link, one is let in.
--: use link
DELETE FROM signin_links WHERE digest = ? RETURNING account_id, person, expires_ms;

--: set hash
INSERT INTO passwords (account_id, person, hash, created_ms, changed_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (account_id, person) DO UPDATE SET
    hash = excluded.hash, changed_ms = excluded.changed_ms;
