-- Checks that are cheap enough for each start: they look at accounts, and at entries behind `:since` alone.
-- `audit.Check` says how a check is written.

-- Amounts are summed in two parts, as SQLite's sum fails beyond 64 bits.
--: account {0}: balance is {1}, the sum of its entries {2} nano-units
SELECT name, balance_nano, before + added
FROM (
    SELECT accounts.name, accounts.balance_nano,
        coalesce((
            SELECT balance_after_nano
            FROM entries_by_account AS filed CROSS JOIN entries ON entries.id = filed.id
            WHERE filed.account_id = accounts.id AND filed.id <= :since
            ORDER BY filed.id DESC LIMIT 1
        ), 0) AS before, coalesce(amount_nano, 0) AS added
    FROM accounts LEFT JOIN (
        SELECT account_id,
            sum(amount_nano / 1000000000) * 1000000000 + sum(amount_nano % 1000000000) AS amount_nano
        FROM entries WHERE id > :since GROUP BY account_id
    ) AS later ON later.account_id = accounts.id
) AS summed
WHERE balance_nano <> before + added;

-- The chain of balances finds two errors in the amounts that cancel each other out.
--: entry {0}: balance after it is {1}, should be {2} nano-units
SELECT id, balance_after_nano, before + amount_nano
FROM (
    SELECT id, amount_nano, balance_after_nano,
        coalesce(
            lag(balance_after_nano) OVER (PARTITION BY account_id ORDER BY id),
            (
                SELECT balance_after_nano
                FROM entries_by_account AS filed CROSS JOIN entries ON entries.id = filed.id
                WHERE filed.account_id = added.account_id AND filed.id <= :since
                ORDER BY filed.id DESC LIMIT 1
            ),
            0
        ) AS before
    FROM entries AS added WHERE id > :since
) AS chained
WHERE balance_after_nano <> before + amount_nano;

-- A charge from before `:kept_from` may have lost its request with its month.
--: entry {0}: its request {1} is not posted at its amount and account
SELECT entries.id, entries.request_id
FROM entries LEFT JOIN requests ON requests.id = entries.request_id
WHERE entries.id > :since AND entries.kind = 'charge' AND (
    coalesce(requests.state, '') <> 'posted'
    OR requests.cost_nano <> -entries.amount_nano
    OR requests.account_id <> entries.account_id
) AND (requests.id IS NOT NULL OR entries.request_id >= :kept_id);

-- Entries that were proven are never fewer: the latest ones were taken away, with what they moved.
--: checkpoints: entries are proven up to {0}, and the last one is {1}
SELECT proven, last
FROM (
    SELECT (SELECT coalesce(max(entry_id), 0) FROM checkpoints) AS proven,
        (SELECT coalesce(max(id), 0) FROM entries) AS last
) AS compared
WHERE proven > last;
