-- The functions of version 3 that version 4 calls in another shape: a node passes no time of its own.

DROP FUNCTION IF EXISTS run_round(BIGINT, BIGINT, JSON, JSON, JSON, BIGINT);

DROP FUNCTION IF EXISTS run_round_apart(BIGINT, BIGINT, JSON, JSON, JSON, BIGINT);

DROP FUNCTION IF EXISTS carry_out(BIGINT, JSON, JSON, JSON, BIGINT);

DROP FUNCTION IF EXISTS take_over(BIGINT, BIGINT, BIGINT, INTERVAL, BIGINT);
