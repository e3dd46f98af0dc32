"""The audit of a database file: SQLite's own checks of it, then the proof of the books."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from gateway.ledger.records import AuditReport
from gateway.ledger.sql.audit import prove, read_checkpoint, read_last_entry, write_checkpoint
from gateway.ledger.sql.budgets import end_period
from gateway.ledger.sqlite.integrity import check_file, find_orphans
from gateway.ledger.sqlite.schema import transaction


def run_audit(connection: sqlite3.Connection, *, full: bool, now_ms: int) -> AuditReport:
    """Prove everything, or only entries and balances since the last checkpoint (at the start).

    A success becomes the next checkpoint.
    """
    damage = check_file(connection, full=full)
    if damage:
        return AuditReport(ok=False, problems=damage)
    connection.create_function("end_period", 2, end_period, deterministic=True)
    connection.execute("BEGIN")  # one snapshot for all checks
    try:
        since = 0 if full else read_checkpoint(connection)
        report = prove(connection, since, full=full)
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
