-- Each of these lines breaks a rule that the schema keeps by itself, and is refused.
DELETE FROM codes;
INSERT OR REPLACE INTO codes SELECT * FROM codes;
INSERT OR REPLACE INTO codes (rowid, id, batch, digest, last4, amount_nano, note, created_by, created_ms) SELECT rowid, 'new', '', zeroblob(32), 'abcd', 1, '', '', 1 FROM codes;
