"""Routes for operators: health, the log of events, how providers answer, refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from yarl import URL

from gateway.admin.fields import describe, name_process
from gateway.api.state import Gateway
from gateway.base.ids import find_last4
from gateway.base.money import describe_amount
from gateway.base.process import PROGRAM, find_commit, find_version
from gateway.base.times import DAY_MS, format_day, format_iso
from gateway.config.records import Config, Provider
from gateway.extras.console.additions import Addition
from gateway.extras.console.errors import invalid_field
from gateway.extras.console.lists import read_page
from gateway.extras.console.routes import READERS, Answer, ConsoleRequest, async_route, route
from gateway.extras.observations.describing import REFUSED
from gateway.extras.observations.records import LatencyScope, UpstreamView
from gateway.extras.observations.serving import LatestFailures
from gateway.extras.operations import health, needs
from gateway.extras.operations.audits import describe_audit
from gateway.extras.operations.events import EVENT, EventFilter, EventLog
from gateway.extras.operations.overview import PERIODS
from gateway.ledger.opening import find_schema
from gateway.ledger.sql.books import Books
from gateway.upstream.provider import BreakerState

ADDITION: Final = Addition()


@async_route("GET", "/health", "operator", READERS)
async def show_health(request: ConsoleRequest) -> Answer:
    gateway, process = request.gateway, request.console.process
    reload, (failures,) = gateway.last_reload, gateway.find_offers(LatestFailures)
    upstream = await _read_upstream(request)
    stored, checkpoint_ms = await request.run(_read_stored)
    audit = describe_audit(process, checkpoint_ms)
    return Answer(
        {
            "node": needs.name_node(gateway.config.storage.location),
            "version": find_version(),
            "commit": find_commit() or None,
            "schema": find_schema(gateway.config.storage.location),
            "program": PROGRAM,
            "started": format_iso(process.started_ms),
            "uptime_seconds": process.uptime_seconds,
            "draining": gateway.draining,
            "reload": reload and describe(reload, "at_ms", "ok", "words", "restart_for"),
            "in_flight": gateway.in_flight,
            "max_in_flight": gateway.config.server.max_in_flight,
            "loop_lag_ms": process.loop_lag_ms,
            "ledger_writable": gateway.ledger.writable,
            **stored,
            "startup_check": {"ok": True, "at": format_iso(process.started_ms)},
            "full_audit": {"ok": audit["ok"], "at": audit["at"]},
            "providers": [
                _describe_load(one, gateway, upstream[one.name])
                for one in gateway.config.providers.values()
            ],
            "models_off": _list_models_off(gateway.config),
            "missing_usage": [
                {**describe(one, "provider", "model", "last_ms"), "replies": one.count}
                for one in gateway.missing_usages.list_latest()
            ],
            "errors": [
                describe(one, "at_ms", "request_id", "status", "code", "provider")
                for one in reversed(failures)
            ],
        }
    )


def _list_models_off(config: Config) -> list[dict[str, str]]:
    """List the models that are switched off themselves, whether or not their providers are off."""
    off = ((one.id, one.off) for one in config.models.values())
    return [{"id": id_, "reason": reason} for id_, reason in off if reason is not None]


def _read_stored(books: Books) -> tuple[dict[str, object], int | None]:
    """Read the part of the report that is in the database and its files, and the last checkpoint."""
    open_holds, held_nano = books.measure_pending()
    backup = books.find_last_event("ledger.backup")
    database_bytes, wal_bytes = books.measure()
    nodes = [
        {
            "name": name_process(node.pid, node.host),
            **describe(node, "version", "since_ms", "seen_ms"),
        }
        for node in books.list_nodes()
    ]
    stored = {
        "nodes": nodes,
        "open_holds": open_holds,
        **describe_amount("held", held_nano),
        "database_bytes": database_bytes,
        "wal_bytes": wal_bytes,
        "backup": format_iso(None if backup is None else backup.at_ms),
    }
    return stored, books.find_last_checkpoint_ms()


@route("GET", "/audit/log", "operator", READERS)
def list_events(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    page, (first, last) = read_page(request, int), query.days()
    chosen = EventFilter(
        query.text("search"),
        query.text("actor"),
        query.text("kind"),
        since_ms=0 if first is None else first * DAY_MS,
        until_ms=None if last is None else (last + 1) * DAY_MS,
    )
    log = EventLog(books)
    events = log.read_page(chosen, page.after_number, page.wanted)
    count, kinds = log.count(chosen), log.find_kinds()
    return page.answer("events", events, EVENT.describe, count=count, kinds=kinds)


_IDLE: Final[tuple[BreakerState, int]] = ("closed", 0)


@async_route("GET", "/providers", "operator", READERS)
async def list_providers(request: ConsoleRequest) -> Answer:
    gateway = request.gateway
    seen = await _read_upstream(request)
    providers = [
        _describe_provider(one, gateway, seen[one.name])
        for one in gateway.config.providers.values()
    ]
    node = needs.name_node(gateway.config.storage.location)
    return Answer({"count": len(providers), "providers": providers, "node": node})


async def _read_upstream(request: ConsoleRequest) -> dict[str, list[UpstreamView]]:
    """Return how the providers answer, by their names."""
    config = request.gateway.config
    by_name: dict[str, list[UpstreamView]] = defaultdict(list)
    for one in await request.run(lambda books: health.list_upstream(books, config)):
        by_name[one.provider].append(one)
    return by_name


def _describe_load(
    provider: Provider, gateway: Gateway, seen: Sequence[UpstreamView]
) -> dict[str, object]:
    """Describe a provider's load. A provider that is off or unused has no state."""
    state = gateway.routes.providers.get(provider.name)
    breaker, seconds = _IDLE if state is None else state.describe_breaker()
    pause = _find_pause(breaker, seconds)
    judged = health.judge(seen, pause, is_off=provider.off is not None)
    return {
        "name": provider.name,
        "on": provider.off is None,
        "off_reason": provider.off,
        **health.describe_upstream(judged),
        "breaker": breaker,
        "breaker_seconds": seconds,
        "in_flight": 0 if state is None else state.in_flight,
        "keys": [
            {**describe(key, "last4", "in_flight", "rest_seconds"), "problem": key.problem or None}
            for key in (() if state is None else state.keys)
        ],
    }


def _describe_provider(
    provider: Provider, gateway: Gateway, seen: Sequence[UpstreamView]
) -> dict[str, object]:
    return {
        **_describe_load(provider, gateway, seen),
        "dialect": provider.dialect,
        "origin": str(URL(provider.base_url).origin()) if provider.base_url else None,
        "key_last4": [find_last4(secret) for secret in _list_secrets(provider, gateway)],
        "max_concurrency": provider.max_concurrency,
        "models": gateway.config.models_of(provider),
        "upstream_models": _describe_upstream_models(provider, gateway, seen),
    }


def _list_secrets(provider: Provider, gateway: Gateway) -> Sequence[str]:
    """Return a provider's present keys: those that are renewed are in its state, if it has one."""
    state = gateway.routes.providers.get(provider.name)
    if state is None or not any(provider.sources):
        return provider.api_keys
    return [key.secret for key in state.keys]


def _describe_upstream_models(
    provider: Provider, gateway: Gateway, seen: Sequence[UpstreamView]
) -> list[dict[str, object]]:
    state, found = gateway.routes.providers.get(provider.name), []
    whole = None if state is None else _find_pause(*state.describe_breaker())
    troubled = () if state is None else state.list_troubled()
    pauses = {one: _find_pause(word, seconds, rest) for one, word, seconds, rest in troubled}
    for one in seen:
        pause, is_off = pauses.get(one.upstream_model) or whole, provider.off is not None
        judged = health.judge([one], pause, is_off=is_off)
        found.append({"model": one.upstream_model, **health.describe_upstream(judged)})
    return found


def _find_pause(breaker: BreakerState, seconds: int, rest_seconds: int = 0) -> health.Pause | None:
    """Return the pause in which nothing is sent, if there is one.

    An open breaker whose time is up waits for the next call, so that is no pause.
    """
    if breaker == "probing":
        return health.Pause("probing")
    most = max(seconds, rest_seconds)
    return health.Pause("resting", most) if most else None


@route("GET", "/latency", "operator", READERS)
def show_latency(books: Books, request: ConsoleRequest) -> Answer:
    """Show how long replies took, by provider and its model or by account."""
    query = request.query
    by = query.choice("by", ("provider", "account"), "provider")
    account_id = request.find_named(books)
    if by == "provider" and account_id is not None:
        raise invalid_field(
            "account",
            "Providers' times are those of all accounts. Leave out 'account', or ask by account.",
        )
    asked = query.day("day")
    day = books.clock() // DAY_MS if asked is None else asked
    scope: LatencyScope = "account" if by == "account" else "route"
    rows, total = health.list_latencies(books, scope, day, account_id)
    names = ("account",) if by == "account" else ("provider", "model")
    described = [
        dict(zip(names, row.name, strict=True)) | health.describe_latencies(row) for row in rows
    ]
    totals = health.describe_latencies(total)
    return Answer({"day": format_day(day), "rows": described, "totals": totals})


@route("GET", "/refusals", "operator", READERS)
def list_refusals(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    period = query.choice("period", tuple(PERIODS), "7d")
    since_ms = (books.clock() // DAY_MS - PERIODS[period] + 1) * DAY_MS
    found = health.list_refusals(books, query.text("account"), since_ms)
    latest = health.list_refused(books, query.text("account"), since_ms)
    body = {
        "since": format_iso(since_ms),
        "count": sum(one.count for one in found),
        "refusals": [health.REFUSAL.describe(one) for one in found],
        "latest": [REFUSED.describe(one) for one in latest],
    }
    return Answer(body)
