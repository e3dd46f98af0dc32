"""Routes for operators: providers, health, audit of the books, and the log of events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from yarl import URL

from gateway.admin import views
from gateway.api import Gateway
from gateway.apikeys import find_last4
from gateway.config import Provider
from gateway.console.api.session import find_version
from gateway.console.paging import Listing, read_page
from gateway.console.process_state import Failure, FinishedAudit, ProcessState
from gateway.console.refusals import ConsoleError
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger import AuditReport, Books, EventView, open_books
from gateway.money import describe_amount
from gateway.times import format_iso, unix_ms

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


# ---- providers -----------------------------------------------------------------------------------


async def list_providers(request: ConsoleRequest) -> Answer:
    gateway = request.gateway
    providers = [_describe_provider(one, gateway) for one in gateway.config.providers.values()]
    return Answer({"count": len(providers), "providers": providers})


def _describe_provider(provider: Provider, gateway: Gateway) -> dict[str, Any]:
    return {
        **_describe_load(provider, gateway),
        "dialect": provider.dialect,
        "origin": str(URL(provider.base_url).origin()) if provider.base_url else None,
        "key_last4": find_last4(provider.api_key),
        "off_reason": provider.off,
        "max_concurrency": provider.max_concurrency,
        "models": gateway.config.models_of(provider),
    }


def _describe_load(provider: Provider, gateway: Gateway) -> dict[str, Any]:
    """Describe a provider's load. One that is off or that no model uses has no state of its own."""
    state = gateway.routes.providers.get(provider.name)
    breaker, seconds = ("closed", 0) if state is None else state.describe_breaker()
    return {
        "name": provider.name,
        "on": provider.off is None,
        "breaker": breaker,
        "breaker_seconds": seconds,
        "troubled": [
            {"model": model, "breaker": one, "breaker_seconds": left, "rest_seconds": rest}
            for model, one, left, rest in (() if state is None else state.list_troubled())
        ],
        "in_flight": 0 if state is None else state.in_flight,
    }


# ---- health --------------------------------------------------------------------------------------


async def show_health(request: ConsoleRequest) -> Answer:
    gateway, process = request.gateway, request.console.process
    facts = await request.run(_read_facts)
    return Answer(
        {
            "version": find_version(),
            "started": format_iso(process.started_ms),
            "uptime_seconds": process.uptime_seconds,
            "draining": gateway.draining,
            "in_flight": gateway.in_flight,
            "max_in_flight": gateway.config.server.max_in_flight,
            "loop_lag_ms": process.loop_lag_ms,
            "ledger_writable": gateway.ledger.writable,
            "open_holds": facts.open_holds,
            **describe_amount("held", facts.held_nano),
            "database_bytes": facts.database_bytes,
            "wal_bytes": facts.wal_bytes,
            "backup": format_iso(facts.backup_ms),
            "audit": _describe_last_audit(process, facts.checkpoint_ms),
            "providers": [
                _describe_load(one, gateway) for one in gateway.config.providers.values()
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
    return _Facts(
        open_holds,
        held_nano,
        books.events.find_last_ms("ledger.backup"),
        books.find_last_checkpoint_ms(),
        *books.measure(),
    )


def _describe_last_audit(process: ProcessState, checkpoint_ms: int | None) -> dict[str, object]:
    """Describe the latest audit that is known.

    The gateway refuses to start on books that do not add up, so its start counts as a passed
    audit, and so does a later checkpoint of any process. Only this process's failures are known.
    """
    passed_ms = max(process.started_ms, checkpoint_ms or 0)
    audit = process.last_audit
    if audit is None or audit.at_ms < passed_ms:
        return {"ok": True, "at": format_iso(passed_ms)}
    return {"ok": audit.report.ok, "at": format_iso(audit.at_ms)}


def _describe_failure(failure: Failure) -> dict[str, object]:
    return views.describe(failure, "at_ms", "request_id", "status", "code", "provider")


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
        path = request.gateway.config.storage.path
        report = await asyncio.to_thread(_audit, path, cancelled.is_set)
        process.last_audit = FinishedAudit(at_ms, report)
    finally:
        cancelled.set()  # else the thread of a cancelled request would keep the process from ending
        process.is_auditing = False
    return Answer(_describe_audit(process.last_audit))


def _audit(path: Path, is_cancelled: Callable[[], bool]) -> AuditReport:
    with open_books(path) as books:
        books.give_up_when(is_cancelled)
        return books.audit()


def _describe_audit(audit: FinishedAudit | None) -> dict[str, object]:
    if audit is None:
        return {"at": None, **_NO_AUDIT}
    return {"at": format_iso(audit.at_ms), **views.describe_audit(audit.report)}


# ---- event log -----------------------------------------------------------------------------------


def list_events(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    page, search = read_page(query, (int,)), query.text("search")
    events = books.events.read_page(search, page.after_number, page.wanted)
    return EVENTS.answer(request.http, page, events, {"count": books.events.count(search)})


def _describe_event(event: EventView) -> dict[str, object]:
    return views.describe(
        event, "id", "at_ms", "actor", "action", "account", "target", "detail", "address"
    )


EVENTS: Final = Listing("events", lambda event: (event.id,), _describe_event)

ROUTES: Final = (
    Route("GET", "/console/api/providers", "operator", list_providers),
    Route("GET", "/console/api/health", "operator", show_health),
    Route("GET", "/console/api/audit", "operator", show_audit),
    Route("POST", "/console/api/audit", "operator", run_audit),
    Route("GET", "/console/api/audit/log", "operator", in_books_thread(list_events)),
)
