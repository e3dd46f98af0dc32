"""Tell whether anything changed, and share replies among all who look at the same page.

A page asks for a mark every few seconds, and builds itself anew if the mark has changed. So a page on which
nothing happens costs one look-up. A reply to pages that build themselves anew serves all of them for
`SHARED_SECONDS`.
Nothing is shared across a change of the mark: a renewal is never older than the mark that it followed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from gateway.api.state import Gateway
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.extras.console.additions import Addition, Renewer
from gateway.extras.console.routes import (
    API_PREFIX,
    Answer,
    ConsoleRequest,
    Reply,
    Route,
    async_route,
)
from gateway.extras.observations.records import SLOT_MS
from gateway.extras.observations.serving import LatestFailures
from gateway.ledger.sql.database import Part, read_script

ADDITION: Final = Addition(scripts=(Path(__file__).with_name("static"),), parts={"shell": "live"})

SHARED_SECONDS: Final = 4.0
"""How long one reply serves all who ask for the same. A page shows nothing later than by this and its own pause."""
MAX_SHARED: Final = 1000
"""The most replies that are kept at once: others are made for one request."""
UNSHARED: Final = (".csv", "/receipt", "/live")
"""The ends of paths whose replies are made for one request, or are shared already."""

ALIKE: Final = (f"{API_PREFIX}/activity",)
"""Paths that holders may call, too, whose replies are the same for all operators."""

_SQL: Final = read_script(__file__, "marks.sql")


class MarkBook(Part):
    """Rows of the ledger that differ as soon as something happened that pages show."""

    def read(self, account_id: int | None) -> tuple[object, ...]:
        """Return the row of an account, or of all of them."""
        now_ms = self._database.clock()
        if account_id is None:
            # One slot back: the observer writes the last sums of a slot a moment after its end.
            wanted = {"slot": now_ms // SLOT_MS - 1, "hour": now_ms // HOUR_MS - 1}
            return tuple(self._database.read_one(_SQL["all accounts"], wanted))
        wanted = {"account": account_id, "day": now_ms // DAY_MS - 1}
        return tuple(self._database.read_one(_SQL["an account"], wanted))


class _Shared:
    """Replies that were made a moment ago, or are being made, for all who ask for the same."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, asyncio.Task[Reply]]] = {}
        """Replies with the times until which they are shared, the oldest first."""

    async def get(self, key: Hashable, make: Callable[[], Coroutine[object, None, Reply]]) -> Reply:
        loop = asyncio.get_running_loop()
        self._drop_old(loop.time())
        if key not in self._kept:
            if len(self._kept) >= MAX_SHARED:
                return await make()
            task = loop.create_task(make())
            self._kept[key] = loop.time() + SHARED_SECONDS, task
            task.add_done_callback(partial(self._drop_failed, key))
        # Shielded: others wait for it, too, when whoever asked first goes away.
        return await asyncio.shield(self._kept[key][1])

    def _drop_old(self, now_seconds: float) -> None:
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest][0] >= now_seconds:
                return
            del self._kept[oldest]

    def _drop_failed(self, key: Hashable, task: asyncio.Task[Reply]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._kept.pop(key, None)


class Sharing(Renewer):
    def __init__(self) -> None:
        self._replies = _Shared()
        self._marks: dict[int | None, str] = {}
        """The latest mark of each account, and of all of them under None."""

    async def show_mark(self, request: ConsoleRequest) -> Reply:
        """Show a mark of what the caller may see: of all accounts, or of its own."""
        account_id = _find_scope(request)
        read = partial(self._read_mark, request, account_id)
        return await self._replies.get(("mark", account_id), read)

    async def answer(self, request: ConsoleRequest, route: Route) -> Reply:
        """Answer as the handler does, or did a moment ago for somebody who sees the same."""
        if request.session is None or route.path.endswith(UNSHARED):
            return await route.handler(request)
        # All operators see the same there; other replies may tell of the session, too.
        is_alike = route.role == "operator" or (request.account.operator and route.path in ALIKE)
        who = None if is_alike else request.session.id
        key = (who, self._marks.get(_find_scope(request)), request.http.path_qs)
        return await self._replies.get(key, partial(_answer, request, route))

    async def _read_mark(self, request: ConsoleRequest, account_id: int | None) -> Reply:
        read = await request.run(lambda books: MarkBook(books).read(account_id))
        seen = _look_at(request.gateway) if account_id is None else ()
        # A digest, since a count would tell holders more than that something changed.
        mark = hashlib.sha256(repr((read, seen)).encode()).hexdigest()[:16]
        self._marks[account_id] = mark
        return Answer({"mark": mark})


@async_route("GET", "/live", "any", logged=False)
async def show_mark(request: ConsoleRequest) -> Reply:
    """Show a mark that changes with what the caller's pages show. It is not logged, as it comes so often."""
    (sharing,) = request.gateway.find_offers(Sharing)
    return await sharing.show_mark(request)


def _find_scope(request: ConsoleRequest) -> int | None:
    return None if request.account.operator else request.account.id


async def _answer(request: ConsoleRequest, route: Route) -> Reply:
    """Return the reply with its JSON written once for all."""
    reply = await route.handler(request)
    if isinstance(reply, Answer) and reply.body is not None:
        return replace(reply, body=dumps_lenient(reply.body))
    return reply


def _look_at(gateway: Gateway) -> tuple[object, ...]:
    """Return what this process alone knows: its load, last reload and latest failure, providers that rest."""
    (latest,) = gateway.find_offers(LatestFailures)
    return (
        gateway.in_flight,
        gateway.draining,
        gateway.ledger.writable,
        gateway.last_reload,
        latest and latest[-1],
        [(one.in_flight, one.describe_breaker()) for one in gateway.routes.providers.values()],
    )
