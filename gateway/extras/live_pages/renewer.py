"""Tell whether anything changed, and share replies among all who look at the same page.

A page asks every few seconds for a mark, and builds itself anew if that is another one than before. So a page
that nothing happens on costs one look-up. What renewals ask for is read once for all of them in `SHARED_SECONDS`.
Nothing is shared across a change of the mark: a renewal is never older than the mark that it followed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass, replace
from typing import Final

from gateway.api.state import Gateway
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.extras.console.additions import Renewer
from gateway.extras.console.routes import Answer, ConsoleRequest, Reply, Route
from gateway.ledger.observation_records import SLOT_MS
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import read_script

SHARED_SECONDS: Final = 2.0
"""How long one reply serves all who ask for the same. A page shows nothing later than by this and its own pause."""
UNSHARED: Final = (".csv", "/receipt", "/live")
"""The ends of paths whose replies are made for one request, or are shared already."""

_SQL: Final = read_script(__file__)


@dataclass(frozen=True, slots=True)
class _Kept:
    until_seconds: float
    task: asyncio.Task[Reply]


class Sharing(Renewer):
    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}
        self._marks: dict[int | None, str] = {}
        """The latest mark of each account, and of all of them under None."""

    async def show_mark(self, request: ConsoleRequest) -> Reply:
        """Show a mark of what the caller may see: of all accounts, or of its own."""
        account_id = _find_scope(request)
        return await self._share(("mark", account_id), self._read_mark(request, account_id))

    async def answer(self, request: ConsoleRequest, route: Route) -> Reply:
        """Answer as the handler does, or did a moment ago for somebody who sees the same."""
        if request.session is None or route.path.endswith(UNSHARED):
            return await route.handler(request)
        signin, mark = request.session.signin, self._marks.get(_find_scope(request))
        is_same = route.role == "operator"
        who = None if is_same else (signin.key, request.account.operator)
        return await self._share((who, mark, request.http.path_qs), _answer(request, route))

    async def _share(self, key: Hashable, make: Coroutine[object, None, Reply]) -> Reply:
        now_seconds = asyncio.get_running_loop().time()
        kept = self._kept.get(key)
        if kept is None or kept.until_seconds < now_seconds:
            self._kept = {
                other: one for other, one in self._kept.items() if one.until_seconds >= now_seconds
            }
            task = asyncio.get_running_loop().create_task(make)
            self._kept[key] = kept = _Kept(now_seconds + SHARED_SECONDS, task)
        else:
            make.close()
        # Shielded: others wait for it, too, when whoever asked first goes away.
        return await asyncio.shield(kept.task)

    async def _read_mark(self, request: ConsoleRequest, account_id: int | None) -> Reply:
        read = await request.run(lambda books: _read_row(books, account_id))
        seen = _look_at(request.gateway) if account_id is None else ()
        # A digest, since a count would tell holders more than that something changed.
        mark = hashlib.sha256(repr((read, seen)).encode()).hexdigest()[:16]
        self._marks[account_id] = mark
        return Answer({"mark": mark})


def _find_scope(request: ConsoleRequest) -> int | None:
    return None if request.account.operator else request.account.id


async def _answer(request: ConsoleRequest, route: Route) -> Reply:
    """Return the reply with its JSON written once for all."""
    reply = await route.handler(request)
    if isinstance(reply, Answer) and reply.body is not None:
        return replace(reply, body=dumps_lenient(reply.body))
    return reply


def _read_row(books: Books, account_id: int | None) -> tuple[object, ...]:
    now_ms = books.clock()
    if account_id is None:
        # One slot back: the observer writes the last sums of a slot a moment after its end.
        wanted = {"slot": now_ms // SLOT_MS - 1, "hour": now_ms // HOUR_MS - 1}
        return tuple(books.read_one(_SQL["all accounts"], wanted))
    return tuple(
        books.read_one(_SQL["an account"], {"account": account_id, "day": now_ms // DAY_MS - 1})
    )


def _look_at(gateway: Gateway) -> tuple[object, ...]:
    """Return what this process alone knows: its load, providers that rest, failures, its configuration."""
    return (
        gateway.in_flight,
        gateway.draining,
        gateway.ledger.writable,
        gateway.last_reload,
        gateway.failures and gateway.failures[-1],
        [(one.in_flight, one.describe_breaker()) for one in gateway.routes.providers.values()],
    )
