"""Routes for operators: how the providers answer, and what was refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from yarl import URL

from gateway.admin import checks, observations, views
from gateway.api.state import Gateway
from gateway.apikeys import find_last4
from gateway.config.records import Provider
from gateway.console.state import READERS, Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.sql.books.books import Books
from gateway.times import DAY_MS, format_iso
from gateway.upstream.breaker import BreakerState

PERIODS: Final = {"today": 1, "7d": 7, "30d": 30}
"""The periods of the list of refusals, in UTC days with the present one."""

_IDLE: Final[tuple[BreakerState, int]] = ("closed", 0)


async def list_providers(request: ConsoleRequest) -> Answer:
    gateway = request.gateway
    rows = await read_upstream(request)
    providers = [
        _describe_provider(one, gateway, rows[one.name])
        for one in gateway.config.providers.values()
    ]
    node = checks.name_node(gateway.config.storage.location)
    return Answer({"count": len(providers), "providers": providers, "node": node})


async def read_upstream(request: ConsoleRequest) -> dict[str, list[observations.UpstreamRow]]:
    """Return how the providers answer, by their names."""
    config = request.gateway.config
    found = await request.run(lambda books: observations.list_upstream(books, config))
    by_name: dict[str, list[observations.UpstreamRow]] = defaultdict(list)
    for row in found:
        by_name[row.provider.name].append(row)
    return by_name


def describe_load(
    provider: Provider, gateway: Gateway, rows: Sequence[observations.UpstreamRow]
) -> dict[str, Any]:
    """Describe a provider's load. One that is off or that no model uses has no state of its own."""
    state = gateway.routes.providers.get(provider.name)
    breaker, seconds = _IDLE if state is None else state.describe_breaker()
    seen, is_off = [row.seen for row in rows], provider.off is not None
    judged = observations.judge(seen, _find_pause(breaker, seconds), is_off=is_off)
    return {
        "name": provider.name,
        "on": provider.off is None,
        **observations.describe_upstream(judged),
        "breaker": breaker,
        "breaker_seconds": seconds,
        "in_flight": 0 if state is None else state.in_flight,
        "keys": [
            {"last4": last4, "in_flight": in_flight, "rest_seconds": rest}
            for last4, in_flight, rest in (() if state is None else state.list_keys())
        ],
    }


def _describe_provider(
    provider: Provider, gateway: Gateway, rows: Sequence[observations.UpstreamRow]
) -> dict[str, Any]:
    return {
        **describe_load(provider, gateway, rows),
        "dialect": provider.dialect,
        "origin": str(URL(provider.base_url).origin()) if provider.base_url else None,
        "key_last4": [find_last4(secret) for secret in provider.api_keys],
        "off_reason": provider.off,
        "max_concurrency": provider.max_concurrency,
        "models": gateway.config.models_of(provider),
        "upstream_models": _describe_upstream_models(provider, gateway, rows),
    }


def _describe_upstream_models(
    provider: Provider, gateway: Gateway, rows: Sequence[observations.UpstreamRow]
) -> list[dict[str, Any]]:
    state = gateway.routes.providers.get(provider.name)
    pauses = {
        model: _find_pause(breaker, seconds, rest_seconds)
        for model, breaker, seconds, rest_seconds in (
            () if state is None else state.list_troubled()
        )
    }
    whole = None if state is None else _find_pause(*state.describe_breaker())
    return [
        {
            "model": row.upstream_model,
            **observations.describe_upstream(
                observations.judge(
                    [row.seen],
                    pauses.get(row.upstream_model) or whole,
                    is_off=provider.off is not None,
                )
            ),
        }
        for row in rows
    ]


def _find_pause(
    breaker: BreakerState, seconds: int, rest_seconds: int = 0
) -> observations.Pause | None:
    """Return whether nothing is sent for a while. An open breaker without seconds waits for a call."""
    if breaker == "probing":
        return observations.Pause("probing")
    most = max(seconds, rest_seconds)
    return observations.Pause("resting", most) if most else None


def list_refusals(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    period = query.choice("period", tuple(PERIODS), "7d")
    since_ms = (books.clock() // DAY_MS - PERIODS[period] + 1) * DAY_MS
    found = observations.list_refusals(books, query.text("account"), since_ms)
    return Answer(
        {
            "since": format_iso(since_ms),
            "count": sum(one.count for one in found),
            "refusals": [views.REFUSAL.describe(one) for one in found],
        }
    )


ROUTES: Final = (
    Route("GET", "/console/api/providers", "operator", list_providers, READERS),
    Route("GET", "/console/api/refusals", "operator", in_books_thread(list_refusals), READERS),
)
