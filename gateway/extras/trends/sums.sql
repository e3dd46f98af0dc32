-- Statements of `sums`. The sums of latencies are of hours in which replies ended.

--: latencies
SELECT json_group_array(json_array(place, bucket, firsts, totals)) FROM (
    SELECT {place} AS place, bucket, sum(firsts) AS firsts, sum(totals) AS totals
    FROM latencies
    WHERE scope = :scope AND hour >= :first AND hour < :end
        AND (:account IS NULL OR account_id = :account)
        AND (:provider IS NULL OR provider = :provider)
        AND (:routes IS NULL OR provider || '/' || upstream_model IN (
            SELECT CAST(value AS TEXT) FROM json_each(:routes)
        ))
    GROUP BY 1, 2
) AS sums;

--: failures
SELECT json_group_array(json_array(hour, failure, failed)) FROM (
    SELECT started_ms / 3600000 AS hour,
        outcome || coalesce(' ' || CAST(status AS TEXT), '') AS failure, count(*) AS failed
    FROM requests INDEXED BY requests_failed
    WHERE outcome NOT IN ('pending', 'complete') AND id >= :low AND id < :high
        AND account_id = coalesce(:account, account_id)
        AND provider = coalesce(:provider, provider)
        AND model = coalesce(:model, model)
    GROUP BY 1, 2
) AS sums;

--: failing
SELECT json_group_array(json_array(failure, failed, account_id, provider, model)) FROM (
    SELECT outcome || coalesce(' ' || CAST(status AS TEXT), '') AS failure, count(*) AS failed,
        account_id, provider, model
    FROM requests INDEXED BY requests_failed
    WHERE outcome NOT IN ('pending', 'complete') AND id >= :low AND id < :high
        AND account_id = coalesce(:account, account_id)
        AND provider = coalesce(:provider, provider)
        AND model = coalesce(:model, model)
    GROUP BY 1, 3, 4, 5
) AS sums;
