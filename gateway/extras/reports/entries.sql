-- Statements of `entries`, but for those that it writes.

-- Every posted request has one charge, so charges are counted by days, not one by one.
--: count
SELECT
    CASE coalesce(:kind, 'charge') WHEN 'charge' THEN (
        SELECT coalesce(sum(requests), 0) FROM daily WHERE account_id = :account
    ) ELSE 0 END + (
        SELECT count(*) FROM entries
        WHERE account_id = :account AND kind = coalesce(:kind, kind) AND kind <> 'charge'
    );
