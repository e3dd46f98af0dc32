"""The audit: proves that balances, entries, requests and sums agree, exactly and in integers."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from gateway.ledger.records import AuditReport, InterruptedView
from gateway.ledger.sqlite.integrity import MAX_PROBLEMS, check_file, find_orphans
from gateway.ledger.sqlite.schema import transaction
from gateway.money import SEARCHES_PER_PRICE, TOKENS_PER_PRICE, Price, Tokens, compute_cost_nano

MAX_TO_SETTLE: Final = 100
"""The most interrupted requests listed; settling them brings up the next."""


class _Check(NamedTuple):
    """A query for violations and a text for them; `:since` is the last entry already proven."""

    sql: str
    message: str


_CHECKS: Final = (
    _Check(
        """
        SELECT name, balance_nano, before + added
        FROM (
            SELECT accounts.name, accounts.balance_nano,
                coalesce((
                    SELECT balance_after_nano FROM entries
                    WHERE account_id = accounts.id AND id <= :since ORDER BY id DESC LIMIT 1
                ), 0) AS before,
                coalesce((
                    SELECT sum(amount_nano) FROM entries
                    WHERE account_id = accounts.id AND id > :since
                ), 0) AS added
            FROM accounts
        )
        WHERE balance_nano <> before + added
        """,
        "account {0}: balance is {1}, the sum of its entries {2} nano-units",
    ),
    _Check(
        """
        SELECT id, balance_after_nano, before + amount_nano
        FROM (
            SELECT id, amount_nano, balance_after_nano,
                coalesce(
                    lag(balance_after_nano) OVER (PARTITION BY account_id ORDER BY id),
                    (
                        SELECT earlier.balance_after_nano FROM entries AS earlier
                        WHERE earlier.account_id = entries.account_id AND earlier.id <= :since
                        ORDER BY earlier.id DESC LIMIT 1
                    ),
                    0
                ) AS before
            FROM entries WHERE id > :since
        )
        WHERE balance_after_nano <> before + amount_nano
        """,
        "entry {0}: balance after it is {1}, should be {2} nano-units",
    ),
    _Check(
        """
        SELECT entries.id, entries.request_id
        FROM entries LEFT JOIN requests ON requests.id = entries.request_id
        WHERE entries.id > :since AND entries.kind = 'charge' AND (
            requests.state IS NOT 'posted'
            OR requests.cost_nano <> -entries.amount_nano
            OR requests.account_id <> entries.account_id
        )
        """,
        "entry {0}: its request {1} is not posted at its amount and account",
    ),
)

_DIFFERENCES: Final = """
    SELECT coalesce(name, account_id), strftime('%Y-%m-%dT%H:%MZ', begins, 'unixepoch'), model,
        key_id, requests, failed, tokens, cost_nano
    FROM (
        SELECT account_id, begins, model, key_id, sum(requests) AS requests,
            sum(failed) AS failed, abs(sum(input_tokens)) + abs(sum(cached_input_tokens))
            + abs(sum(cache_write_tokens)) + abs(sum(output_tokens)) AS tokens,
            sum(cost_nano) AS cost_nano
        FROM ({}) GROUP BY 1, 2, 3, 4
    ) AS sums LEFT JOIN accounts ON accounts.id = sums.account_id
    WHERE requests OR failed OR tokens OR sums.cost_nano
"""
"""Sums over rows that cancel each other out if they agree."""

_HOURS_AGAINST_REQUESTS: Final = """
    SELECT account_id, hour * 3600 AS begins, model, key_id, requests, failed, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
    FROM hourly
    UNION ALL
    SELECT account_id, ended_ms / 3600000 * 3600, model, key_id,
        -(state = 'posted'), -(state = 'voided'),
        iif(state = 'posted', -input_tokens, 0),
        iif(state = 'posted', -cached_input_tokens, 0),
        iif(state = 'posted', -cache_write_tokens - cache_write_1h_tokens, 0),
        iif(state = 'posted', -output_tokens, 0),
        -cost_nano
    FROM requests WHERE state <> 'pending'
"""
_DAYS_AGAINST_HOURS: Final = """
    SELECT account_id, day * 86400 AS begins, model, key_id, requests, failed, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
    FROM daily
    UNION ALL
    SELECT account_id, hour / 24 * 86400, model, key_id, -requests, -failed, -input_tokens,
        -cached_input_tokens, -cache_write_tokens, -output_tokens, -cost_nano
    FROM hourly
"""

_COST: Final = f"""
    input_tokens * input_price_nano + cached_input_tokens * cached_input_price_nano
    + cache_write_tokens * cache_write_price_nano
    + cache_write_1h_tokens * cache_write_1h_price_nano + output_tokens * output_price_nano
    + web_searches * web_search_price_nano * {TOKENS_PER_PRICE // SEARCHES_PER_PRICE}
"""
"""The cost before its division by a million. SQLite makes a REAL of integers that overflow."""

_COSTS: Final = f"""
    SELECT id, cost_nano, computed
    FROM (
        SELECT id, cost_nano, iif(
            typeof({_COST}) = 'integer',
            ({_COST} + {TOKENS_PER_PRICE - 1}) / {TOKENS_PER_PRICE} + request_price_nano,
            compute_cost(
                input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
                cache_write_1h_tokens, input_price_nano, output_price_nano,
                cached_input_price_nano, cache_write_price_nano, request_price_nano,
                cache_write_1h_price_nano, web_search_price_nano, web_searches
            )
        ) AS computed
        FROM requests WHERE state = 'posted'
    )
    WHERE cost_nano <> computed
"""  # noqa: S608 - of constants

_FULL_CHECKS: Final = (
    _Check(
        _COSTS,
        "request {0}: its cost is {1}, its tokens at its prices make {2} nano-units",
    ),
    _Check(
        """
        SELECT codes.id, codes.entry_id
        FROM codes LEFT JOIN entries ON entries.id = codes.entry_id
        WHERE codes.entry_id IS NOT NULL AND (
            entries.kind IS NOT 'code'
            OR entries.amount_nano <> codes.amount_nano
            OR entries.account_id <> codes.redeemed_by
        )
        """,
        "code {0}: its entry {1} has another kind, amount or account",
    ),
    _Check(
        """
        SELECT id FROM entries
        WHERE kind = 'code' AND NOT EXISTS (SELECT 1 FROM codes WHERE codes.entry_id = entries.id)
        """,
        "entry {0}: no code was redeemed by it",
    ),
    _Check(
        """
        SELECT requests.id
        FROM requests LEFT JOIN entries
            ON entries.request_id = requests.id AND entries.kind = 'charge'
        WHERE requests.state = 'posted' AND entries.id IS NULL
        """,
        "request {0}: posted without a charge",
    ),
    _Check(
        """
        SELECT keys.id, keys.spent_nano, coalesce(posted.cost_nano, 0)
        FROM keys LEFT JOIN (
            SELECT key_id, sum(cost_nano) AS cost_nano FROM requests
            WHERE state = 'posted' GROUP BY key_id
        ) AS posted ON posted.key_id = keys.id
        WHERE keys.spent_nano <> coalesce(posted.cost_nano, 0)
        """,
        "key {0}: spent is {1}, the sum of its requests {2} nano-units",
    ),
    _Check(
        _DIFFERENCES.format(_HOURS_AGAINST_REQUESTS),
        "account {0}, hour {1}, model {2}, key {3}: the hour's sums differ from its requests by"
        " {4} posted, {5} failed, {6} tokens, {7} nano-units",
    ),
    _Check(
        _DIFFERENCES.format(_DAYS_AGAINST_HOURS),
        "account {0}, day {1}, model {2}, key {3}: the day's sums differ from those of its hours by"
        " {4} posted, {5} failed, {6} tokens, {7} nano-units",
    ),
)

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


def run_audit(connection: sqlite3.Connection, *, full: bool, now_ms: int) -> AuditReport:
    """Prove everything, or only entries and balances since the last checkpoint (at the start).

    A success becomes the next checkpoint.
    """
    damage = check_file(connection, full=full)
    if damage:
        return AuditReport(ok=False, problems=damage)
    connection.create_function("compute_cost", _COST_ARGUMENTS, _compute_cost, deterministic=True)
    connection.execute("BEGIN")  # one snapshot for all checks
    try:
        since = 0 if full else _read_checkpoint(connection)
        report = _check_all(connection, since, full=full)
        last = _read_number(connection, "SELECT coalesce(max(id), 0) FROM entries")
    finally:
        connection.execute("ROLLBACK")
    if report.ok:
        _write_checkpoint(connection, last, now_ms)
    return report


def _check_all(connection: sqlite3.Connection, since: int, *, full: bool) -> AuditReport:
    checks = _CHECKS + _FULL_CHECKS if full else _CHECKS
    problems = tuple(text for check in checks for text in _violations(connection, check, since))
    if full:
        problems += find_orphans(connection)
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


def _violations(connection: sqlite3.Connection, check: _Check, since: int) -> list[str]:
    rows = connection.execute(f"{check.sql} LIMIT {MAX_PROBLEMS}", {"since": since})
    return [check.message.format(*row) for row in rows]


def _compute_cost(*row: int) -> int:
    """Compute a cost of which an intermediate product overflows SQLite's integers."""
    fresh, output, cached, written, written_1h, *prices, searches = row
    return compute_cost_nano(
        Tokens(fresh, cached, written, output, written_1h), Price(*prices), searches
    )


_COST_ARGUMENTS: Final = 13
"""The number of the function's parameters: five counts, seven prices, the searches."""


def _read_to_settle(connection: sqlite3.Connection) -> tuple[InterruptedView, ...]:
    return tuple(InterruptedView(*row) for row in connection.execute(_TO_SETTLE))


def _read_checkpoint(connection: sqlite3.Connection) -> int:
    return _read_number(connection, "SELECT coalesce(max(entry_id), 0) FROM checkpoints")


def _write_checkpoint(connection: sqlite3.Connection, entry_id: int, now_ms: int) -> None:
    with transaction(connection):
        if entry_id > _read_checkpoint(connection):
            connection.execute(
                "INSERT INTO checkpoints (entry_id, created_ms) VALUES (?, ?)", (entry_id, now_ms)
            )


def _read_number(connection: sqlite3.Connection, sql: str, *parameters: int) -> int:
    (number,) = connection.execute(sql, parameters).fetchone()
    return int(number)
