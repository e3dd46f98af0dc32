"""A gateway with its own settings and an upstream, without fixtures.

The suite and the long runs (`tests.long`) play the same scenes on it, small and in full.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.support import responses
from tests.support import running as runs
from tests.support.books import Books
from tests.support.chat import say
from tests.support.config import Kind, make_places
from tests.support.formats import CALLERS
from tests.support.messages import ask
from tests.support.process import CHAT, MESSAGES, GatewayProcess
from tests.support.seed import NANO, Seed
from tests.support.stage import Stage
from tests.support.upstream import listen, port_of, serve_scripts

T = TypeVar("T")

TRACEBACK_CHARACTERS: Final = 3000
RICH: Final = (Seed("rich", 10**6 * NANO),)
PATHS: Final = {
    name: path
    for name, path in {"chat": CHAT, "messages": MESSAGES, "responses": "/v1/responses"}.items()
    if name in CALLERS
}
ASKS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    "chat": say,
    "messages": ask,
    "responses": responses.ask,
}
"""The completion path and a request, by the caller's dialect."""
CLOSED_SECONDS: Final = 10.0
"""Time for a provider's connection to be closed, less than an idle one is kept."""


@contextlib.asynccontextmanager
async def set_stage(
    *,
    kinds: dict[str, Kind],
    server: str = "",
    seeds: tuple[Seed, ...] = RICH,
    module: str = "gateway",
) -> AsyncIterator[Stage]:
    """Open a gateway and an upstream; at the end, stop the gateway and check its books."""
    with tempfile.TemporaryDirectory() as folder, listen() as listener:
        places = make_places({"alpha": port_of(listener), "beta": port_of(listener)})
        running = runs.start(
            Path(folder), places, seeds=seeds, kinds=kinds, server=server, module=module
        )
        try:
            async with serve_scripts(listener) as alpha:
                yield Stage(running, alpha, alpha)
            running.prove_books()
            check_log(running.gateway)
            await asyncio.to_thread(running.gateway.stop)
        finally:
            running.gateway.kill()


async def check_nobody_waits(
    stage: Stage, ask: Callable[[], Coroutine[None, None, T]], *, least: int = 5
) -> T:
    """Check that others are answered while a request is worked on; return its result.

    If it stopped them, one would be.
    """
    answered = 0
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(ask())
        while not asked.done():
            assert (await stage.gateway.ask("GET", "/healthz")).status == 200
            answered += 1
    print("answered meanwhile:", answered)
    assert answered >= least
    return asked.result()


def check_log(gateway: GatewayProcess) -> None:
    """Check that there is no traceback; on failure show only the first, as the log may be long."""
    _, found, rest = gateway.log.partition("Traceback")
    assert not found, rest[:TRACEBACK_CHARACTERS]


async def at_most(
    count: int, jobs: Iterable[Callable[[], Awaitable[T]]], results: list[T] | None = None
) -> list[T]:
    """Run the jobs, `count` at a time; return their results in the order of their ends."""
    done = [] if results is None else results
    queue = iter(jobs)

    async def work() -> None:
        for job in queue:
            done.append(await job())

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(work())
    return done


@dataclass(frozen=True, slots=True)
class Settled:
    """A request's row, with the sum and the number of its entries."""

    state: str
    outcome: str
    cost_nano: int
    charged_nano: int
    entries: int


def read_all_settled(books: Books) -> dict[str, Settled]:
    """Read every request of the books, by id, in one query."""
    with contextlib.closing(sqlite3.connect(f"file:{books.path}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "SELECT r.id, r.state, r.outcome, coalesce(r.cost_nano, 0),"
            " coalesce(-sum(e.amount_nano), 0), count(e.amount_nano)"
            " FROM requests r LEFT JOIN entries e ON e.request_id = r.id GROUP BY r.id"
        ).fetchall()
    return {identity: Settled(*rest) for identity, *rest in rows}


@dataclass(frozen=True, slots=True)
class Vitals:
    """The kernel's figures of the gateway's process."""

    gateway: GatewayProcess

    @property
    def descriptors(self) -> int:
        return len(list((self._folder / "fd").iterdir()))

    @property
    def rss_bytes(self) -> int:
        for line in (self._folder / "status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    @property
    def _folder(self) -> Path:
        assert self.gateway.process is not None
        return Path("/proc") / str(self.gateway.process.pid)
