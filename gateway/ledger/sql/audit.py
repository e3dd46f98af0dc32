"""The proof of the books: balances, entries, requests and sums agree, exactly and in integers.

Each check is a query that finds rows which contradict others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from gateway.ids import find_first_id
from gateway.ledger.records import AuditReport, InterruptedView
from gateway.ledger.sql.connection import PART, Connection
from gateway.ledger.sql.rows import FILED_ENTRIES, WRONG_DAYS, read_used
from gateway.money import Price, compute_cost_nano
from gateway.prices import AppliedPrice, read_price
from gateway.times import DAY_MS

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Check(NamedTuple):
    """A query for violations and a text for them.

    `:since` is the last entry already proven, `:kept_from` the time since which all requests are
    kept, a midnight, and `:kept_id` the least id of its requests. What came before it is proven by
    the sums by hour, and a charge of that time may be without its request.
    """

    sql: str
    message: str
    show: Callable[[Sequence[Any]], Sequence[object]] = tuple
    """Makes a row fit for the text."""


def _show_hour(row: Sequence[Any]) -> Sequence[object]:
    account, begins_ms, *rest = row
    return (account, _name(begins_ms, "%Y-%m-%dT%H:%MZ"), *rest)


def _show_day(row: Sequence[Any]) -> Sequence[object]:
    account, day, *rest = row
    return (account, _name(day * DAY_MS, "%Y-%m-%d"), *rest)


def _name(ms: int, form: str) -> str:
    """Name a time that may be any number, as the row is wrong."""
    try:
        return f"{EPOCH + timedelta(milliseconds=ms):{form}}"
    except OverflowError:
        return f"{ms} ms"


# These are cheap enough for each start: they look at accounts, and at entries behind `:since` alone.
CHECKS: Final = (
    # Amounts are summed in two parts, as SQLite's sum fails beyond 64 bits.
    Check(
        f"""
        SELECT name, balance_nano, before + added
        FROM (
            SELECT accounts.name, accounts.balance_nano,
                coalesce((
                    SELECT balance_after_nano FROM {FILED_ENTRIES}
                    WHERE filed.account_id = accounts.id AND filed.id <= :since
                    ORDER BY filed.id DESC LIMIT 1
                ), 0) AS before, coalesce(amount_nano, 0) AS added
            FROM accounts LEFT JOIN (
                SELECT account_id,
                    sum(amount_nano / {PART}) * {PART} + sum(amount_nano % {PART}) AS amount_nano
                FROM entries WHERE id > :since GROUP BY account_id
            ) AS later ON later.account_id = accounts.id
        ) AS summed
        WHERE balance_nano <> before + added
        """,  # noqa: S608 - of constants
        "account {0}: balance is {1}, the sum of its entries {2} nano-units",
    ),
    # The chain of balances finds two errors in the amounts that cancel each other out.
    Check(
        f"""
        SELECT id, balance_after_nano, before + amount_nano
        FROM (
            SELECT id, amount_nano, balance_after_nano,
                coalesce(
                    lag(balance_after_nano) OVER (PARTITION BY account_id ORDER BY id),
                    (
                        SELECT balance_after_nano FROM {FILED_ENTRIES}
                        WHERE filed.account_id = added.account_id AND filed.id <= :since
                        ORDER BY filed.id DESC LIMIT 1
                    ),
                    0
                ) AS before
            FROM entries AS added WHERE id > :since
        ) AS chained
        WHERE balance_after_nano <> before + amount_nano
        """,  # noqa: S608 - of constants
        "entry {0}: balance after it is {1}, should be {2} nano-units",
    ),
    # A charge from before `:kept_from` may have lost its request with its month.
    Check(
        """
        SELECT entries.id, entries.request_id
        FROM entries LEFT JOIN requests ON requests.id = entries.request_id
        WHERE entries.id > :since AND entries.kind = 'charge' AND (
            coalesce(requests.state, '') <> 'posted'
            OR requests.cost_nano <> -entries.amount_nano
            OR requests.account_id <> entries.account_id
        ) AND (requests.id IS NOT NULL OR entries.request_id >= :kept_id)
        """,
        "entry {0}: its request {1} is not posted at its amount and account",
    ),
)

# Tokens of each kind are compared by themselves: moved from one kind to another they would cancel out.
_DIFFERENCES: Final = """
    SELECT coalesce(name, CAST(account_id AS TEXT)), begins_ms, model, key_id, requests, failed,
        tokens, cost_nano
    FROM (
        SELECT account_id, begins_ms, model, key_id, sum(requests) AS requests,
            sum(failed) AS failed, abs(sum(input_tokens)) + abs(sum(cached_input_tokens))
            + abs(sum(cache_write_tokens)) + abs(sum(output_tokens)) AS tokens,
            sum(cost_nano) AS cost_nano
        FROM ({}) AS differences GROUP BY 1, 2, 3, 4
    ) AS sums LEFT JOIN accounts ON accounts.id = sums.account_id
    WHERE requests <> 0 OR failed <> 0 OR tokens <> 0 OR sums.cost_nano <> 0
"""
"""Sums over rows that cancel each other out if they agree."""

_HOURS_AGAINST_REQUESTS: Final = """
    SELECT account_id, hour * 3600000 AS begins_ms, model, key_id, requests, failed, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
    FROM hourly WHERE hour * 3600000 >= :kept_from
    UNION ALL
    SELECT account_id, ended_ms / 3600000 * 3600000, model, key_id,
        CASE state WHEN 'posted' THEN -1 ELSE 0 END, CASE state WHEN 'voided' THEN -1 ELSE 0 END,
        CASE state WHEN 'posted' THEN -input_tokens ELSE 0 END,
        CASE state WHEN 'posted' THEN -cached_input_tokens ELSE 0 END,
        CASE state WHEN 'posted' THEN -cache_write_tokens - cache_write_1h_tokens ELSE 0 END,
        CASE state WHEN 'posted' THEN -output_tokens ELSE 0 END,
        -cost_nano
    FROM requests WHERE state <> 'pending' AND ended_ms >= :kept_from
"""
_DAYS_AGAINST_HOURS: Final = """
    SELECT account_id, day * 86400000 AS begins_ms, model, key_id, requests, failed, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
    FROM daily
    UNION ALL
    SELECT account_id, hour / 24 * 86400000, model, key_id, -requests, -failed, -input_tokens,
        -cached_input_tokens, -cache_write_tokens, -output_tokens, -cost_nano
    FROM hourly
"""

_WRONG_BUDGETS: Final = f"""
    SELECT id, spent_nano, charged
    FROM (
        SELECT id, spent_nano, period_day, coalesce((
            SELECT sum(cost_nano) FROM requests
            WHERE budget_id = budgets.id
                AND ended_ms >= period_day * {DAY_MS} AND ended_ms < end_period(period, period_day)
        ), 0) AS charged
        FROM budgets
    ) AS summed
    WHERE spent_nano <> charged AND period_day * {DAY_MS} >= :kept_from
"""  # noqa: S608 - of constants
"""Budgets whose sum is not that of their requests, of periods whose requests are
kept; `end_period` is ours."""
_OTHERS_BUDGETS: Final = """
    SELECT requests.id, budget_id FROM requests JOIN budgets ON budgets.id = budget_id
    WHERE requests.account_id <> budgets.account_id
"""

FULL_CHECKS: Final = (
    Check(
        """
        SELECT codes.id, codes.entry_id
        FROM codes LEFT JOIN entries ON entries.id = codes.entry_id
        WHERE codes.entry_id IS NOT NULL AND (
            coalesce(entries.kind, '') <> 'code'
            OR entries.amount_nano <> codes.amount_nano
            OR entries.account_id <> codes.redeemed_by
        )
        """,
        "code {0}: its entry {1} has another kind, amount or account",
    ),
    Check(
        """
        SELECT id FROM entries
        WHERE kind = 'code' AND NOT EXISTS (SELECT 1 FROM codes WHERE codes.entry_id = entries.id)
        """,
        "entry {0}: no code was redeemed by it",
    ),
    Check(
        """
        SELECT orders.id, orders.entry_id
        FROM orders LEFT JOIN entries ON entries.id = orders.entry_id
        WHERE orders.entry_id IS NOT NULL AND (
            coalesce(entries.kind, '') <> 'card'
            OR entries.amount_nano <> orders.amount_nano
            OR entries.account_id <> orders.account_id
            OR entries.idempotency_key <> orders.session_id
        )
        """,
        "order {0}: its entry {1} has another kind, amount, account or payment page",
    ),
    Check(
        """
        SELECT id FROM entries
        WHERE kind = 'card' AND NOT EXISTS (SELECT 1 FROM orders WHERE orders.entry_id = entries.id)
        """,
        "entry {0}: no order was paid by it",
    ),
    Check(
        """
        SELECT id, taken_nano, returned
        FROM (
            SELECT orders.id, taken_nano, coalesce((
                SELECT -sum(amount_nano) FROM entries
                WHERE entries.account_id = orders.account_id AND kind = 'correction'
                    AND substr(idempotency_key, 1, length(orders.id) + 1) = orders.id || ' '
            ), 0) AS returned
            FROM orders
        ) AS summed
        WHERE taken_nano <> returned
        """,
        "order {0}: {1} nano-units are said to be taken back, its corrections took {2}",
    ),
    Check(
        """
        SELECT requests.id
        FROM requests LEFT JOIN entries
            ON entries.request_id = requests.id AND entries.kind = 'charge'
        WHERE requests.state = 'posted' AND entries.id IS NULL
        """,
        "request {0}: posted without a charge",
    ),
    Check(
        """
        SELECT keys.id, keys.spent_nano, coalesce(sums.cost_nano, 0)
        FROM keys LEFT JOIN (
            SELECT used.origin_id, sum(cost_nano) AS cost_nano
            FROM hourly JOIN keys AS used ON used.id = key_id GROUP BY used.origin_id
        ) AS sums ON sums.origin_id = keys.id
        WHERE keys.spent_nano <> coalesce(sums.cost_nano, 0)
        """,
        "key {0}: spent is {1}, the sum of the hours of its line {2} nano-units",
    ),
    Check(
        _WRONG_BUDGETS,
        "budget {0}: spent is {1}, the sum of its requests in its period {2} nano-units",
    ),
    Check(_OTHERS_BUDGETS, "request {0}: its budget {1} is another account's"),
    Check(
        _DIFFERENCES.format(_HOURS_AGAINST_REQUESTS),
        "account {0}, hour {1}, model {2}, key {3}: the hour's sums differ from its requests by"
        " {4} posted, {5} failed, {6} tokens, {7} nano-units",
        _show_hour,
    ),
    Check(
        _DIFFERENCES.format(_DAYS_AGAINST_HOURS),
        "account {0}, day {1}, model {2}, key {3}: the day's sums differ from those of its hours by"
        " {4} posted, {5} failed, {6} tokens, {7} nano-units",
        _show_hour,
    ),
    Check(
        WRONG_DAYS,
        "account {0}, day {1}, model {2}, key {3}, provider {4}: the day's sums are not those of its"
        " requests",
        _show_day,
    ),
)


MAX_PROBLEMS: Final = 20
"""Problems listed of each kind: broken books have thousands that say no more."""
MAX_TO_SETTLE: Final = 100
"""The most interrupted requests listed; settling them brings up the next."""

_CHARGES: Final = """
    SELECT id, cost_nano, price_id, reported_cost_nano, input_tokens, cached_input_tokens,
        cache_write_tokens, output_tokens, cache_write_1h_tokens, extras
    FROM requests WHERE id > ? AND state = 'posted' ORDER BY id LIMIT 10000
"""
_UNSETTLED: Final = """
    FROM requests JOIN accounts ON accounts.id = requests.account_id
    WHERE outcome = 'interrupted' AND NOT EXISTS (
        SELECT 1 FROM entries
        WHERE entries.request_id = requests.id AND entries.kind = 'correction'
    )
"""
_TO_SETTLE: Final = f"""
    SELECT requests.id, accounts.name, model, provider, hold_nano, started_ms {_UNSETTLED}
    ORDER BY started_ms DESC, requests.id DESC LIMIT {MAX_TO_SETTLE}
"""


def prove(
    connection: Connection,
    since: int,
    *,
    full: bool,
    kept_from_ms: int = 0,
    more_checks: Iterable[Check] = (),
) -> AuditReport:
    """Prove what came after the entry `since`, or everything if `full`, inside one snapshot.

    `kept_from_ms` is the time since which all requests are kept; `more_checks` are the database's own.
    """
    checks = (*CHECKS, *FULL_CHECKS, *more_checks) if full else CHECKS
    # An empty text is below every id: then no request may be missing.
    kept_id = find_first_id(kept_from_ms) if kept_from_ms else ""
    values: dict[str, int | str] = {"since": since, "kept_from": kept_from_ms, "kept_id": kept_id}
    problems = tuple(text for check in checks for text in _find(connection, check, values))
    if full:
        problems += tuple(_find_wrong_costs(connection))
    return AuditReport(
        ok=not problems,
        accounts=_read_number(connection, "SELECT count(*) FROM accounts"),
        entries=_read_number(connection, "SELECT count(*) FROM entries WHERE id > ?", since),
        pending=_read_number(connection, "SELECT count(*) FROM requests WHERE state = 'pending'"),
        interrupted=_read_number(
            connection, "SELECT count(*) FROM requests WHERE outcome = 'interrupted'"
        ),
        unsettled=_read_number(connection, f"SELECT count(*) {_UNSETTLED}"),
        to_settle=_read_to_settle(connection) if full else (),
        problems=problems,
    )


def read_last_entry(connection: Connection) -> int:
    return _read_number(connection, "SELECT coalesce(max(id), 0) FROM entries")


def read_checkpoint(connection: Connection) -> int:
    """Return the last entry that is proven."""
    return _read_number(connection, "SELECT coalesce(max(entry_id), 0) FROM checkpoints")


def write_checkpoint(connection: Connection, entry_id: int, now_ms: int) -> None:
    """Note that all entries up to this one are proven, inside a transaction."""
    # Another process may have proven more meanwhile.
    if entry_id > read_checkpoint(connection):
        connection.execute(
            "INSERT INTO checkpoints (entry_id, created_ms) VALUES (?, ?)", (entry_id, now_ms)
        )


def _find(connection: Connection, check: Check, values: Mapping[str, int | str]) -> list[str]:
    rows = connection.execute(f"{check.sql} LIMIT {MAX_PROBLEMS}", values)
    return [check.message.format(*check.show(row)) for row in rows]


def _find_wrong_costs(connection: Connection) -> Iterator[str]:
    """Compute each charge again, by the very function that made it; tell of those that differ."""
    prices: dict[int, Price] = {}
    for price_id, text in connection.execute("SELECT id, price FROM prices"):
        if (applied := _maybe_read_price(text)) is not None and applied.id == price_id:
            prices[price_id] = applied.price
        else:
            yield f"price {price_id}: its text is not that of the price that was applied"
    # Page by page, as charges may be millions; by id, as the partitions of PostgreSQL are.
    last_id, found = "", 0
    while rows := connection.execute(_CHARGES, (last_id,)).fetchall():
        for request_id, cost_nano, price_id, reported_nano, *used in rows:
            if price_id not in prices:
                continue  # it is told of above, or by the check of references
            tokens, calls = read_used((used[0], used[1], used[2], used[3], used[4], used[5]))
            made = compute_cost_nano(tokens, prices[price_id], calls, reported_nano)
            if made != cost_nano and found < MAX_PROBLEMS:
                found += 1
                yield (
                    f"request {request_id}: its cost is {cost_nano}, its usage at its price makes"
                    f" {made} nano-units"
                )
        last_id = rows[-1][0]


def _maybe_read_price(text: str) -> AppliedPrice | None:
    try:
        return read_price(text)
    except (ValueError, TypeError, AttributeError):  # whatever a wrong text leads to
        return None


def _read_to_settle(connection: Connection) -> tuple[InterruptedView, ...]:
    return tuple(InterruptedView(*row) for row in connection.execute(_TO_SETTLE))


def _read_number(connection: Connection, sql: str, *values: int) -> int:
    (number,) = connection.execute(sql, values).fetchone()
    return int(number)
