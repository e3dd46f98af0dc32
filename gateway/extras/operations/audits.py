"""Routes for operators: the audit of the books, which may take minutes, and its latest report."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Final

from gateway.admin import audits, views
from gateway.base.times import format_iso, unix_ms
from gateway.config.records import Config
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.routes import OPERATORS, READERS, Answer, ConsoleRequest, async_route
from gateway.extras.console.state import FinishedAudit, ProcessState
from gateway.ledger.opening import open_books
from gateway.ledger.records import AuditReport
from gateway.ledger.sql.books import Books

_NO_AUDIT: Final[Mapping[str, object]] = {
    **dict.fromkeys(views.AUDIT.names),
    "to_settle": [],
    "problems": [],
}


@async_route("GET", "/audit", "operator", READERS)
async def show_audit(request: ConsoleRequest) -> Answer:
    checkpoint_ms = await request.run(Books.find_last_checkpoint_ms)
    return Answer(describe_audit(request.console.process, checkpoint_ms))


@async_route("POST", "/audit", "operator", OPERATORS)
async def run_audit(request: ConsoleRequest) -> Answer:
    """Run the full audit, in a thread and connection of its own as it may take minutes."""
    process = request.console.process
    if process.is_auditing:
        message = "An audit is already running. Wait for its report to appear here."
        raise ConsoleError(409, "audit_running", message)
    cancelled = threading.Event()
    process.is_auditing = True
    try:
        report = await asyncio.to_thread(_audit, request.gateway.config, cancelled.is_set)
        process.last_audit = FinishedAudit(unix_ms(), report)
    finally:
        cancelled.set()  # else the thread of a cancelled request would keep the process from ending
        process.is_auditing = False
    return Answer(describe_audit(process, None))


def _audit(config: Config, is_cancelled: Callable[[], bool]) -> AuditReport:
    with open_books(config.storage.location) as books:
        books.give_up_when(is_cancelled)
        return audits.run_audit(books, config)


def describe_audit(process: ProcessState, checkpoint_ms: int | None) -> dict[str, object]:
    """Describe the latest full audit since the start, if one is known.

    The start-up check has passed: the gateway refuses to start on books that do not add up. A later
    checkpoint comes from a full audit by any process; its counts and failures are not stored.
    """
    audit = process.last_audit
    if checkpoint_ms and checkpoint_ms > (audit.at_ms if audit else process.started_ms):
        return {**_NO_AUDIT, "at": format_iso(checkpoint_ms), "ok": True}
    if audit is None:
        return {"at": None, **_NO_AUDIT}
    return {"at": format_iso(audit.at_ms), **views.AUDIT.describe(audit.report)}
