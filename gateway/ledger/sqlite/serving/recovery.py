"""The start of a ledger: the audit, recovery from a crash, and reading everything into memory.

Requests that were in flight when the gateway died become `interrupted`: nothing is charged, nothing
is held any more, and the operator may settle each by a correction. Their status stays unknown,
because nobody knows what the caller got; `ended_ms` is when they were found. Only a process that
has the lock may do this: otherwise pending means in flight.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.ledger.records import LedgerMismatch
from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.sqlite.audit import run_audit
from gateway.ledger.sqlite.schema import ignore_step, set_busy_timeout, transaction
from gateway.ledger.sqlite.serving.changes import ChangeFeed
from gateway.ledger.sqlite.totals import fail_pending

log = logging.getLogger("gateway.ledger")

SERVING_BUSY_MS: Final = 5
"""SQLite's own wait for another process's transaction. SQLite backs off to 100 ms, and an operator's
script that writes in a loop would then keep the server out for seconds. So the wait is short, and
the writer retries at once."""

_INTERRUPT: Final = """
    UPDATE requests SET state = 'voided', outcome = 'interrupted', ended_ms = max(started_ms, ?)
    WHERE state = 'pending'
"""


def recover_and_read(
    connection: sqlite3.Connection,
    *,
    feed: ChangeFeed,
    path: Path,
    now_ms: int,
    begin: Callable[[str], None] = ignore_step,
) -> Snapshot:
    """Audit, void what a crash left pending, and read everything. Needs the lock.

    Nothing is written to a file that is damaged or whose books do not add up. `begin` is told each
    step.
    """
    begin("proving the books since the last audit")
    report = run_audit(connection, full=False, now_ms=now_ms)
    if not report.ok:
        raise LedgerMismatch(f"{path}: the books do not add up: {'; '.join(report.problems)}")
    begin("voiding the requests of a crash")
    if interrupted := interrupt_pending(connection, now_ms):
        log.warning(
            "requests in flight when the gateway last died: %d, now interrupted and charged 0;"
            " `audit` lists them",
            interrupted,
        )
    begin("reading accounts, budgets and keys")
    snapshot = feed.read_all(connection, now_ms)
    set_busy_timeout(connection, SERVING_BUSY_MS)
    return snapshot


def interrupt_pending(connection: sqlite3.Connection, now_ms: int) -> int:
    """Void all pending requests in one transaction; return how many there were."""
    with transaction(connection):
        fail_pending(connection, now_ms)
        return connection.execute(_INTERRUPT, (now_ms,)).rowcount
