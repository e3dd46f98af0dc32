"""What a crash leaves behind: requests that were in flight, and whose end nobody saw.

Each becomes `interrupted`: nothing is charged, nothing is held any more, and the operator may
settle it by a correction. Its status stays unknown, since what the caller got is; `ended_ms` is
when it was found. Only a process that has the lock may do this: elsewhere pending means in flight.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from gateway.ledger.schema import transaction
from gateway.ledger.totals import fail_pending

_INTERRUPT: Final = """
    UPDATE requests SET state = 'voided', outcome = 'interrupted', ended_ms = max(started_ms, ?)
    WHERE state = 'pending'
"""


def interrupt_pending(connection: sqlite3.Connection, now_ms: int) -> int:
    """Resolve all pending requests in one transaction; how many there were."""
    with transaction(connection):
        fail_pending(connection, now_ms)
        return connection.execute(_INTERRUPT, (now_ms,)).rowcount
