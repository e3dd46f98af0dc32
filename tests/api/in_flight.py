"""Something happens to a gateway of the test's own while requests of every form are in flight."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web

from gateway.api.state import Gateway, make_gateway
from gateway.config.load import load_config
from gateway.ledger.opening import open_books
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sqlite.serving import open_sqlite
from gateway.server.serve import make_app
from tests.api.endings import FORMS, PIECES, PROMPT, Ending, Form
from tests.api.scene import ASKS, PATHS, RICH
from tests.ledger.faults import Faults
from tests.support import client, seed
from tests.support import running as runs
from tests.support.books import Books
from tests.support.client import Call, Cut, Reply, request
from tests.support.config import EMBEDS, Kind, Places, write_config
from tests.support.process import GatewayProcess
from tests.support.upstream import Exchange, Script, ScriptedUpstream
from tests.support.waiting import until

KINDS: Final = {
    "plain": Kind(("alpha",), len(PATHS) * len(FORMS)),
    "embed": Kind(("alpha",), 1, makes=EMBEDS),
}
COMMIT_SECONDS: Final = 1.0
"""Replaces the five seconds that a caller waits for a commit."""
DRAIN_SECONDS: Final = 0.5
AMPLE_SECONDS: Final = 300.0
"""A drain that does not end while a test waits."""
EXIT_SECONDS: Final = 60.0
"""Limit for an exit, longer than it takes on a busy machine."""


@dataclass(slots=True)
class Scene:
    """A gateway: a process, or one within the test whose ledger can be broken."""

    port: int
    key: str
    books: Books
    alpha: ScriptedUpstream
    process: GatewayProcess | None = None
    ledger: ServingLedger | None = None
    gateway: Gateway | None = None
    faults: Faults = field(default_factory=Faults)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets the provider go on."""
    signalled: float = 0.0
    _outage: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def count_pending(self) -> int:
        ((count,),) = self.books._all("SELECT count(*) FROM requests WHERE state = 'pending'")
        return count

    async def break_ledger(self) -> None:
        """Let all commits fail, but the last one has worked: requests are let through until then."""
        assert self.ledger is not None
        self.ledger._health.proven_until_seconds = math.inf
        self._outage.enter_context(self.faults.fail_commits())

    async def mend_ledger(self) -> None:
        self._outage.close()

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        assert self.process.process is not None
        self.process.process.send_signal(number)

    async def wait_for_exit(self) -> int:
        assert self.process is not None
        process = self.process.process
        assert process is not None
        await until(lambda: process.poll() is not None, "the gateway to exit", seconds=EXIT_SECONDS)
        code: int = process.returncode
        return code


Step = Callable[[Scene], Awaitable[None]]


async def nothing(_: Scene) -> None:
    return


@dataclass(frozen=True, slots=True)
class Happening:
    """The events before the requests come, while they are in flight, and when they have ended."""

    before: Step = nothing
    during: Step = nothing
    after: Step = nothing
    drain_seconds: float | None = None
    """The drain of a gateway that is a process; None stands for one within the test."""


async def _stop(scene: Scene) -> None:
    scene.signalled = time.monotonic()
    scene.signal(signal.SIGTERM)


async def _stop_twice(scene: Scene) -> None:
    await _stop(scene)
    assert scene.process is not None
    log = scene.process
    await until(lambda: "stopping" in log.log, "the first signal to be heard")
    scene.signal(signal.SIGTERM)


async def _check_drained(scene: Scene) -> None:
    assert time.monotonic() - scene.signalled >= DRAIN_SECONDS
    assert await scene.wait_for_exit() == 0


async def _check_stopped(scene: Scene) -> None:
    assert await scene.wait_for_exit() == 0


async def _kill(scene: Scene) -> None:
    scene.signal(signal.SIGKILL)
    await scene.wait_for_exit()


async def _restart(scene: Scene) -> None:
    assert scene.process is not None
    scene.process.start()
    count = len(PATHS) * len(FORMS)
    with open_books(scene.books.path) as books:
        assert len(books.audit().to_settle) == count, "an operator may settle each"


async def _break_late(scene: Scene) -> None:
    """Break the ledger once every request has its row, and let the provider go on."""
    count = len(PATHS) * len(FORMS)
    await until(lambda: scene.count_pending() == count, "every request to have its row")
    await scene.break_ledger()
    scene.go_on.set()


async def _go_on(scene: Scene) -> None:
    scene.go_on.set()


HAPPENINGS: Final[dict[str, Happening]] = {
    "the drain ends": Happening(
        during=_stop, after=_check_drained, drain_seconds=DRAIN_SECONDS
    ),
    "a second signal ends the drain": Happening(
        during=_stop_twice, after=_check_stopped, drain_seconds=AMPLE_SECONDS
    ),
    "a kill and a new start": Happening(during=_kill, after=_restart, drain_seconds=DRAIN_SECONDS),
    "the ledger fails before the admission": Happening(
        before=Scene.break_ledger, during=_go_on, after=Scene.mend_ledger
    ),
    "the ledger fails before the settlement": Happening(
        during=_break_late, after=Scene.mend_ledger
    ),
}  # fmt: skip
"""How each row of the table `GATEWAY` comes about."""


@contextlib.asynccontextmanager
async def open_scene(
    happening: Happening, folder: Path, places: Places, alpha: ScriptedUpstream
) -> AsyncIterator[Scene]:
    if happening.drain_seconds is None:
        async with open_inside(folder, places, alpha) as scene:
            yield scene
    else:
        with open_process(
            folder, places, KINDS, f"drain_seconds = {happening.drain_seconds}"
        ) as run:
            yield Scene(run.gateway.port, run.callers["rich"].key, run.books, alpha, run.gateway)
            with open_books(run.gateway.database) as books:
                report = books.audit()
            assert (report.problems, report.pending) == ((), 0)


@contextlib.contextmanager
def open_process(
    folder: Path, places: Places, kinds: dict[str, Kind], server: str
) -> Iterator[runs.Running]:
    """Start a gateway; in the end it may have exited already."""
    running = runs.start(folder, places, seeds=RICH, kinds=kinds, server=server)
    try:
        yield running
        assert "Traceback" not in running.gateway.log
    finally:
        running.gateway.kill()


@contextlib.asynccontextmanager
async def open_inside(
    folder: Path, places: Places, alpha: ScriptedUpstream, *, seeds: tuple[seed.Seed] = RICH
) -> AsyncIterator[Scene]:
    """Serve within the test, which may choose the ledger."""
    path = folder / "gateway.db"
    (caller,) = seed.seed(path, seeds).values()
    file = folder / "gateway.toml"
    file.write_text(write_config(places, port=1, kinds=KINDS))
    faults = Faults()
    async with open_sqlite(path, commit_seconds=COMMIT_SECONDS, connector=faults.connect) as ledger:
        gateway = make_gateway(load_config(file, {}), ledger)
        runner = web.AppRunner(make_app(gateway), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            port, books = runner.addresses[0][1], Books(path)
            yield Scene(port, caller.key, books, alpha, None, ledger, gateway, faults)
        finally:
            await runner.cleanup()
            gateway.close()
        assert (gateway.in_flight, gateway.buffered_bytes) == (0, 0)


@dataclass(slots=True)
class InFlight:
    """A request in flight, and what its caller has got."""

    caller: str
    form: Form
    ending: Ending
    model: str
    call: Call
    reply: Reply = field(default_factory=lambda: Reply(0, {}, complete=False))
    exchange: Exchange | None = None

    @property
    def stream(self) -> bool:
        return self.form != "json"

    @property
    def prompt(self) -> str:
        return f"{PROMPT} {self.model}."

    def write(self, key: str) -> bytes:
        headers = {"Content-Type": "application/json", "x-api-key": key}
        body = json.dumps(ASKS[self.caller](self.model, self.prompt, stream=self.stream)).encode()
        return request("POST", PATHS[self.caller], headers, body)

    async def read_text(self) -> None:
        """Read as far as the provider of a begun stream has come."""
        if self.form == "begun":
            await self._read_head()
            while PIECES[-1].encode() not in self.reply.body:
                self.reply.body += await self.call.read_piece()

    async def end(self) -> None:
        """Read the rest of the reply."""
        with contextlib.suppress(Cut):
            if not self.reply.status:
                await self._read_head()
            while piece := await self.call.read_piece():
                self.reply.body += piece
            self.reply.complete = True

    async def _read_head(self) -> None:
        await self.call.read_head()
        self.reply.status, self.reply.headers = self.call.status, self.call.headers


@contextlib.asynccontextmanager
async def in_flight(
    scene: Scene, rows: dict[Form, Ending], *, read: bool
) -> AsyncIterator[list[InFlight]]:
    """Begin a request of each form for callers of both dialects, each of a model of its own.

    They are sent at once, so that a ledger that is broken has admitted all before it notices. With
    `read`, callers read as far as the provider has come.
    """
    async with contextlib.AsyncExitStack() as stack:
        forms = [(caller, *row) for caller in PATHS for row in rows.items()]
        requests = [
            InFlight(*form, f"plain/{number}", await stack.enter_async_context(_connect(scene)))
            for number, form in enumerate(forms)
        ]
        by_prompt = {one.prompt: one for one in requests}

        def play(exchange: Exchange) -> Script:
            one = by_prompt[find_prompt(exchange)]
            one.exchange = exchange
            return one.ending.write(scene.go_on)

        scene.alpha.always(play)
        await asyncio.gather(*(one.call.send(one.write(scene.key)) for one in requests))
        await scene.alpha.wait_for(len(requests))
        if read:
            await asyncio.gather(*(one.read_text() for one in requests))
        yield requests


def find_prompt(exchange: Exchange) -> str:
    content = exchange.json["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


@contextlib.asynccontextmanager
async def _connect(scene: Scene) -> AsyncIterator[Call]:
    """Connect and ask something, so that the gateway has accepted the connection."""
    async with client.connect(scene.port) as call:
        await call.send(request("GET", "/healthz"))
        assert (await call.read_all()).status == 200
        call.status = 0
        yield call
