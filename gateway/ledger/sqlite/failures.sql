-- Schema version 8: why calls failed, and an index for the search of a model's calls.

-- The latest failures one by one, which tell why a call failed. They never quote the provider.
CREATE TABLE upstream_failures (
    id INTEGER PRIMARY KEY,
    failed_ms INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    status INTEGER,
    reason TEXT NOT NULL,
    url TEXT NOT NULL
) STRICT;

CREATE INDEX upstream_failures_by_request ON upstream_failures (request_id);

-- A model that is used rarely is found without a look at other calls. Many accounts that call now
-- and then have as many sums by hour as calls.
CREATE INDEX requests_by_model ON requests (model, id);
