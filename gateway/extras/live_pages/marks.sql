-- Statements of `marks`: a row that differs as soon as something happened that pages show.

-- Charges and credits, calls that began or ended, changes by people, and what the observer counted.
--: all accounts
SELECT
    (SELECT max(id) FROM entries),
    (SELECT max(id) FROM requests),
    (SELECT count(*) FROM requests WHERE state = 'pending'),
    (SELECT max(id) FROM events),
    (SELECT coalesce(sum(calls), 0) FROM upstream_calls WHERE slot >= :slot),
    (SELECT coalesce(sum(refused), 0) FROM refusals WHERE hour >= :hour);

-- The sums have calls of no charge, too.
--: an account
SELECT
    balance_nano,
    (SELECT count(*) FROM requests WHERE account_id = accounts.id AND state = 'pending'),
    (
        SELECT coalesce(sum(requests + failed), 0) FROM daily
        WHERE daily.account_id = accounts.id AND day >= :day
    ),
    (SELECT max(request_id) FROM refused WHERE account_id = accounts.id)
FROM accounts WHERE accounts.id = :account;
