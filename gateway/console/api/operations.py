"""Routes for operators: health, audit of the books, and the log of events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.admin import checks, observations, views
from gateway.admin.fields import describe
from gateway.config.records import Config, Reload
from gateway.console.api.observations import describe_load, read_upstream
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError
from gateway.console.state import (
    OPERATORS,
    READERS,
    Answer,
    ConsoleRequest,
    Failure,
    FinishedAudit,
    ProcessState,
    Route,
    in_books_thread,
)
from gateway.ledger.opening import open_books
from gateway.ledger.records import AuditReport, NodeView
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount
from gateway.times import format_iso, unix_ms
from gateway.version import find_version

_NO_AUDIT: Final[Mapping[str, object]] = {
    "ok": None,
    "accounts": None,
    "entries": None,
    "pending": None,
    "interrupted": None,
    "unsettled": None,
    "to_settle": [],
    "problems": [],
}


@dataclass(frozen=True, slots=True)
class _Facts:
    """The part of the health report that is read from the database and its files."""

    open_holds: int
    held_nano: int
    backup_ms: int | None
    checkpoint_ms: int | None
    database_bytes: int
    wal_bytes: int
    nodes: list[NodeView]


# ---- health --------------------------------------------------------------------------------------


async def show_health(request: ConsoleRequest) -> Answer:
    gateway, process = request.gateway, request.console.process
    facts, upstream = await request.run(_read_facts), await read_upstream(request)
    return Answer(
        {
            "node": checks.name_node(gateway.config.storage.location),
            "nodes": [_describe_node(one) for one in facts.nodes],
            "version": find_version(),
            "started": format_iso(process.started_ms),
            "uptime_seconds": process.uptime_seconds,
            "draining": gateway.draining,
            "reload": _describe_reload(gateway.last_reload),
            "in_flight": gateway.in_flight,
            "max_in_flight": gateway.config.server.max_in_flight,
            "loop_lag_ms": process.loop_lag_ms,
            "ledger_writable": gateway.ledger.writable,
            "open_holds": facts.open_holds,
            **describe_amount("held", facts.held_nano),
            "database_bytes": facts.database_bytes,
            "wal_bytes": facts.wal_bytes,
            "backup": format_iso(facts.backup_ms),
            "startup_check": {"ok": True, "at": format_iso(process.started_ms)},
            "full_audit": _describe_full_audit(process, facts.checkpoint_ms),
            "providers": [
                describe_load(one, gateway, upstream[one.name])
                for one in gateway.config.providers.values()
            ],
            "missing_usage": [
                {
                    "provider": one.provider,
                    "model": one.model,
                    "replies": one.count,
                    "last": format_iso(one.last_ms),
                }
                for one in gateway.missing_usages.list_latest()
            ],
            "errors": [_describe_failure(one) for one in process.failures],
        }
    )


def _read_facts(books: Books) -> _Facts:
    open_holds, held_nano = books.calls.measure_pending()
    backup = books.events.find_last("ledger.backup")
    return _Facts(
        open_holds,
        held_nano,
        None if backup is None else backup.at_ms,
        books.find_last_checkpoint_ms(),
        *books.measure(),
        books.list_nodes(),
    )


def _describe_full_audit(process: ProcessState, checkpoint_ms: int | None) -> dict[str, object]:
    """Describe the latest full audit since the start, if one is known.

    The start-up check has passed: the gateway refuses to start on books that do not add up. A later
    checkpoint is that of a full audit by any process. Only this process's failures are known.
    """
    audit = process.last_audit
    passed_ms = checkpoint_ms if checkpoint_ms and checkpoint_ms > process.started_ms else None
    if passed_ms is not None and (audit is None or audit.at_ms < passed_ms):
        return {"ok": True, "at": format_iso(passed_ms)}
    if audit is None:
        return {"ok": None, "at": None}
    return {"ok": audit.report.ok, "at": format_iso(audit.at_ms)}


def _describe_reload(reload: Reload | None) -> dict[str, object] | None:
    return None if reload is None else describe(reload, "at_ms", "ok", "words", "restart_for")


def _describe_node(node: NodeView) -> dict[str, object]:
    return {
        "name": checks.name_process(node.pid, node.host),
        **describe(node, "version", "since_ms", "seen_ms"),
    }


def _describe_failure(failure: Failure) -> dict[str, object]:
    return describe(failure, "at_ms", "request_id", "status", "code", "provider")


# ---- audit ---------------------------------------------------------------------------------------


async def show_audit(request: ConsoleRequest) -> Answer:
    return Answer(_describe_audit(request.console.process.last_audit))


async def run_audit(request: ConsoleRequest) -> Answer:
    """Run the full audit, in a thread and connection of its own as it may take minutes."""
    process = request.console.process
    if process.is_auditing:
        raise ConsoleError(
            409, "audit_running", "An audit is already running. Wait for its report to appear here."
        )
    cancelled = threading.Event()
    process.is_auditing = True
    try:
        at_ms = unix_ms()
        report = await asyncio.to_thread(_audit, request.gateway.config, cancelled.is_set)
        process.last_audit = FinishedAudit(at_ms, report)
    finally:
        cancelled.set()  # else the thread of a cancelled request would keep the process from ending
        process.is_auditing = False
    return Answer(_describe_audit(process.last_audit))


def _audit(config: Config, is_cancelled: Callable[[], bool]) -> AuditReport:
    with open_books(config.storage.location) as books:
        books.give_up_when(is_cancelled)
        return observations.run_audit(books, config)


def _describe_audit(audit: FinishedAudit | None) -> dict[str, object]:
    if audit is None:
        return {"at": None, **_NO_AUDIT}
    return {"at": format_iso(audit.at_ms), **views.AUDIT.describe(audit.report)}


# ---- event log -----------------------------------------------------------------------------------


def list_events(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    page, search = read_page(query, (int,)), query.text("search")
    events = books.events.read_page(search, page.after_number, page.wanted)
    return EVENTS.answer(request.http, page, events, {"count": books.events.count(search)})


EVENTS: Final = Listing("events", lambda event: (event.id,), views.EVENT.describe)

ROUTES: Final = (
    Route("GET", "/console/api/health", "operator", show_health, READERS),
    Route("GET", "/console/api/audit", "operator", show_audit, READERS),
    Route("POST", "/console/api/audit", "operator", run_audit, OPERATORS),
    Route("GET", "/console/api/audit/log", "operator", in_books_thread(list_events), READERS),
)
