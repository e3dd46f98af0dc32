-- The tables of version 4, taken to version 5: how long complete replies took.

CREATE TABLE latencies (
    scope TEXT COLLATE "C" NOT NULL,
    hour amount NOT NULL,
    account_id BIGINT NOT NULL,
    provider TEXT COLLATE "C" NOT NULL,
    upstream_model TEXT COLLATE "C" NOT NULL,
    bucket BIGINT NOT NULL,
    firsts BIGINT NOT NULL,
    totals BIGINT NOT NULL,
    PRIMARY KEY (scope, hour, account_id, provider, upstream_model, bucket)
);
