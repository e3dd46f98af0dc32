-- Schema version 4: limits of accounts, for all their keys together.

-- A JSON array of model ids; NULL allows all.
ALTER TABLE accounts ADD COLUMN models TEXT CHECK (models IS NULL OR json_valid(models));

-- Limits: NULL is the default of the configuration, 0 is none.
ALTER TABLE accounts ADD COLUMN requests_per_minute INTEGER CHECK (requests_per_minute >= 0);

ALTER TABLE accounts ADD COLUMN tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0);

ALTER TABLE accounts ADD COLUMN concurrency INTEGER CHECK (concurrency >= 0);
