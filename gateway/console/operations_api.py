"""For operators: the providers, how the gateway is, the proof of its books, and who did what."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from yarl import URL

from gateway import accounts
from gateway.config import Provider
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError
from gateway.console.session_api import find_version
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.console.vitals import Failure, Proof, Vitals
from gateway.ledger.books import Books
from gateway.ledger.records import AuditReport, EventView
from gateway.state import Gateway
from gateway.times import format_iso, unix_ms
from gateway.views import describe_audit, money

SHOWN_OF_KEY: Final = 4
MIN_KEY_CHARS: Final = 12
"""Of a shorter key, four characters would be too much."""

_NOT_PROVEN: Final[Mapping[str, object]] = {
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
    """What of the health is in the database and its files."""

    open_holds: int
    held_nano: int
    backup_ms: int | None
    checkpoint_ms: int | None
    database_bytes: int
    wal_bytes: int


# ---- providers -----------------------------------------------------------------------------------


async def list_providers(visit: Visit) -> Answer:
    gateway = visit.gateway
    providers = [_describe_provider(one, gateway) for one in gateway.config.providers.values()]
    return Answer({"count": len(providers), "providers": providers})


def _describe_provider(provider: Provider, gateway: Gateway) -> dict[str, Any]:
    return {
        **_describe_lane(provider, gateway),
        "dialect": provider.dialect,
        "origin": str(URL(provider.base_url).origin()) if provider.base_url else None,
        "key_last4": show_last4(provider.api_key),
        "off_reason": provider.off,
        "max_concurrency": provider.max_concurrency,
        "models": [
            model.id
            for model in gateway.config.models.values()
            if any(route.provider == provider.name for route in model.routes)
        ],
    }


def _describe_lane(provider: Provider, gateway: Gateway) -> dict[str, Any]:
    """A provider that is off, or that no model needs, has no lane: nothing can fail there."""
    lane = gateway.routes.lanes.get(provider.name)
    breaker, seconds = ("closed", 0) if lane is None else lane.tell_breaker()
    return {
        "name": provider.name,
        "on": provider.off is None,
        "breaker": breaker,
        "breaker_seconds": seconds,
        "in_flight": 0 if lane is None else lane.in_flight,
    }


def show_last4(api_key: str) -> str | None:
    """Enough to tell which of their keys it is; None when that would tell too much, or is nothing."""
    return api_key[-SHOWN_OF_KEY:] if len(api_key) >= MIN_KEY_CHARS else None


# ---- health --------------------------------------------------------------------------------------


async def show_health(visit: Visit) -> Answer:
    gateway, vitals = visit.gateway, visit.console.vitals
    facts = await visit.run(partial(_read_facts, gateway.config.storage.path))
    return Answer(
        {
            "version": find_version(),
            "started": format_iso(vitals.started_ms),
            "uptime_seconds": vitals.uptime_seconds,
            "draining": gateway.draining,
            "in_flight": gateway.in_flight,
            "max_in_flight": gateway.config.server.max_in_flight,
            "loop_lag_ms": vitals.loop_lag_ms,
            "ledger_writable": gateway.ledger.writable,
            "open_holds": facts.open_holds,
            **money("held", facts.held_nano),
            "database_bytes": facts.database_bytes,
            "wal_bytes": facts.wal_bytes,
            "backup": format_iso(facts.backup_ms),
            "audit": _describe_last_audit(vitals, facts.checkpoint_ms),
            "providers": [
                _describe_lane(one, gateway) for one in gateway.config.providers.values()
            ],
            "errors": [_describe_failure(one) for one in vitals.failures],
        }
    )


def _read_facts(path: Path, books: Books) -> _Facts:
    open_holds, held_nano = books.open_holds()
    return _Facts(
        open_holds,
        held_nano,
        books.last_event_ms("ledger.backup"),
        books.last_checkpoint_ms(),
        _measure(path),
        _measure(path.with_name(path.name + "-wal")),
    )


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _describe_last_audit(vitals: Vitals, checkpoint_ms: int | None) -> dict[str, object]:
    """The latest that is known.

    The gateway does not start on books that disagree, so the start was a success; a checkpoint
    after it was one too, of this process or another. Failures are known of this process alone.
    """
    passed_ms = max(vitals.started_ms, checkpoint_ms or 0)
    proof = vitals.last_proof
    if proof is None or proof.at_ms < passed_ms:
        return {"ok": True, "at": format_iso(passed_ms)}
    return {"ok": proof.report.ok, "at": format_iso(proof.at_ms)}


def _describe_failure(failure: Failure) -> dict[str, object]:
    return {
        "at": format_iso(failure.at_ms),
        "request_id": failure.request_id,
        "status": failure.status,
        "code": failure.code,
        "provider": failure.provider,
    }


# ---- audit ---------------------------------------------------------------------------------------


async def show_audit(visit: Visit) -> Answer:
    return Answer(_describe_proof(visit.console.vitals.last_proof))


async def run_audit(visit: Visit) -> Answer:
    """The full proof, on a thread and a connection of its own: the desk goes on meanwhile."""
    vitals = visit.console.vitals
    if vitals.is_proving:
        raise ConsoleError(
            409, "audit_running", "An audit is running already. Its report will be here shortly."
        )
    over = threading.Event()
    vitals.is_proving = True
    try:
        at_ms = unix_ms()
        path = visit.gateway.config.storage.path
        report = await asyncio.to_thread(_prove, path, over.is_set)
        vitals.last_proof = Proof(at_ms, report)
    finally:
        over.set()  # cancelled: a thread that nobody waits for would keep the process from ending
        vitals.is_proving = False
    return Answer(_describe_proof(vitals.last_proof))


def _prove(path: Path, is_over: Callable[[], bool]) -> AuditReport:
    with Books.open(path) as books:
        books.give_up_when(is_over)
        return accounts.audit(books)


def _describe_proof(proof: Proof | None) -> dict[str, object]:
    if proof is None:
        return {"at": None, **_NOT_PROVEN}
    return {"at": format_iso(proof.at_ms), **describe_audit(proof.report)}


# ---- who did what --------------------------------------------------------------------------------


def list_events(books: Books, visit: Visit) -> Answer:
    query = visit.query
    page, search = read_page(query, (int,)), query.text("search")
    events = books.events(search, page.after_number, page.wanted)
    return EVENTS.answer(visit.request, page, events, {"count": books.count_events(search)})


def _describe_event(event: EventView) -> dict[str, object]:
    return {
        "id": event.id,
        "at": format_iso(event.at_ms),
        "actor": event.actor,
        "action": event.action,
        "account": event.account,
        "target": event.target,
        "detail": event.detail,
        "address": event.address,
    }


EVENTS: Final = Listing("events", lambda event: (event.id,), _describe_event)

ROUTES: Final = (
    Route("GET", "/console/api/providers", "operator", list_providers),
    Route("GET", "/console/api/health", "operator", show_health),
    Route("GET", "/console/api/audit", "operator", show_audit),
    Route("POST", "/console/api/audit", "operator", run_audit),
    Route("GET", "/console/api/audit/log", "operator", on_desk(list_events)),
)
