"""The audit of a database file: SQLite's own checks of it, then the proof of the books."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Final

from gateway.ledger.records import AuditReport
from gateway.ledger.sql.audit import prove, read_checkpoint, read_last_entry, write_checkpoint
from gateway.ledger.sql.budgets import end_period
from gateway.ledger.sql.checks import COST, COSTS_MESSAGE, Check
from gateway.ledger.sqlite.integrity import check_file, find_orphans
from gateway.ledger.sqlite.schema import transaction
from gateway.money import TOKENS_PER_PRICE, Price, Tokens, compute_cost_nano

_COST_ARGUMENTS: Final = 13
"""The number of the function's parameters: five counts, seven prices, the searches."""
_COSTS: Final = f"""
    SELECT id, cost_nano, computed
    FROM (
        SELECT id, cost_nano, iif(
            typeof({COST}) = 'integer',
            ({COST} + {TOKENS_PER_PRICE - 1}) / {TOKENS_PER_PRICE} + request_price_nano,
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
_COST_CHECK: Final = Check(_COSTS, COSTS_MESSAGE)


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
        since = 0 if full else read_checkpoint(connection)
        report = prove(connection, since, full=full, more_checks=(_COST_CHECK,))
        if full:
            orphans = find_orphans(connection)
            report = replace(
                report, ok=report.ok and not orphans, problems=report.problems + orphans
            )
        last = read_last_entry(connection)
    finally:
        connection.execute("ROLLBACK")
    if report.ok:
        with transaction(connection):
            write_checkpoint(connection, last, now_ms)
    return report


def _compute_cost(*row: int) -> int:
    """Compute a cost of which an intermediate product overflows SQLite's integers."""
    fresh, output, cached, written, written_1h, *prices, searches = row
    return compute_cost_nano(
        Tokens(fresh, cached, written, output, written_1h), Price(*prices), searches
    )
