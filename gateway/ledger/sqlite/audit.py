"""The audit: proves that balances, entries, requests and sums agree, exactly and in integers."""

from __future__ import annotations

import sqlite3
from typing import Final

from gateway.ledger.records import AuditReport, InterruptedView
from gateway.ledger.sqlite.budgets import end_period
from gateway.ledger.sqlite.checks import CHECKS, FULL_CHECKS, Check
from gateway.ledger.sqlite.integrity import MAX_PROBLEMS, check_file, find_orphans
from gateway.ledger.sqlite.schema import transaction
from gateway.money import Price, Tokens, compute_cost_nano

MAX_TO_SETTLE: Final = 100
"""The most interrupted requests listed; settling them brings up the next."""


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
    connection.create_function("end_period", 2, end_period, deterministic=True)
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
    checks = CHECKS + FULL_CHECKS if full else CHECKS
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


def _violations(connection: sqlite3.Connection, check: Check, since: int) -> list[str]:
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
