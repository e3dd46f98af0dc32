"""Connections that stall are aborted, and a drain lets requests in flight end, on a clock that the test sets.

How requests end that outlast the drain is in the table of endings (`tests/api/endings.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import resource
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from gateway.config.load import load_config
from gateway.server.connections import ConnectionWatch, find_max_connections, fit_to_files
from tests.api.endings import GATEWAY, REPORTED, check_last
from tests.api.in_flight import AMPLE_SECONDS, Happening, Scene, in_flight, open_scene
from tests.api.scene import ASKS, Settled, read_all_settled
from tests.support.chat import check_error, check_messages_error
from tests.support.client import Call, request
from tests.support.config import Places
from tests.support.process import CHAT, MESSAGES, GatewayProcess
from tests.support.rows import each_row
from tests.support.settings import SHIPPED, load
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until

SERVER: Final = load_config(SHIPPED, {}).server
SETTINGS: Final = dataclasses.replace(
    SERVER, header_seconds=10.0, keep_alive_seconds=30.0, stall_seconds=4.0
)


@dataclass
class Transport:
    unread: int = 0
    aborted: bool = False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


@dataclass(eq=False)
class Connection:
    """A connection as aiohttp has it."""

    transport: Transport | None = field(default_factory=Transport)
    _request_in_progress: bool = False
    replied: float = 0.0
    made: float = 0.0
    is_known: bool = True
    was_known: bool = True
    is_asked: bool = False
    is_answered: bool = False
    is_at_rest: bool = False
    is_lingering: bool = False

    @property
    def visitor(self) -> Connection:
        """Itself: it has the fields."""
        return self

    @property
    def is_aborted(self) -> bool:
        return self.transport is not None and self.transport.aborted


def watch(*connections: Connection) -> ConnectionWatch:
    server = cast("Any", SimpleNamespace(connections=connections, _kwargs={}))
    return ConnectionWatch(server, SETTINGS)


STALLS: Final = (
    # One sends no whole head, the other does not read its reply.
    "100 109.9 110!",
    "unread=5 100 103.9 104!",
    # Limits can change while connections are open.
    "100 settings 102.9 103!",
    "unread=5 100 settings 101.9 102!",
    # A kept connection may idle for longer than a head may take, which has its whole time then.
    "rest 0 29.9 30!",
    "rest 0 29.9 begins 29.9 39.8 39.9!",
    "rest 0 settings 4.9 5!",
    # A request that is served takes as long as it takes; what is thrown away has limits of its own.
    "busy 0 1000",
    "lingering 0 1000",
    # Progress starts the time anew: a reply is read, or another request was served.
    "unread=100 0 unread=99 3.9 unread=98 7.8 unread=97 11.7 15.7!",
    "0 served 9.9 served 19.8 29.8!",
    # A caller may send requests on and read none of the replies: more of these are no progress.
    "unread=1 0 unread=1001 2 unread=2001 4!",
)
"""Events of a connection, and sweeps at so many seconds; `!` is the one that aborts it."""


@each_row("steps", STALLS)
def test_a_connection_that_stalls_is_aborted_at_its_limit(steps: str) -> None:
    connection = Connection(transport := Transport())
    watching = watch(connection)
    for number, step in enumerate(steps.split(), start=1):
        match step.partition("="):
            case ["unread", _, size]:
                transport.unread = int(size)
            case ["busy", *_]:
                connection._request_in_progress = True
            case ["lingering", *_]:
                connection.is_lingering = True
            case ["served", *_]:
                connection.replied = float(number)
            case ["rest" | "begins" as now, *_]:
                connection.is_at_rest = now == "rest"
            case ["settings", *_]:
                settings = dataclasses.replace(
                    SERVER, header_seconds=3.0, keep_alive_seconds=5.0, stall_seconds=2.0
                )
                watching.reconfigure(cast("Any", SimpleNamespace(server=settings)))
            case _:
                watching.clock.seconds = float(step.rstrip("!"))
                watching.sweep()
                assert transport.aborted == step.endswith("!"), step


def test_a_connection_without_a_transport_is_left_alone() -> None:
    watching = watch(Connection(transport=None))
    watching.sweep()
    watching.clock.seconds = 1000.0
    watching.sweep()
    watching.abort_all()


@each_row(("busy", "unread", "idle"), [(False, 0, True), (True, 0, False), (False, 1, False)])
def test_idle_is_who_serves_nothing_and_whose_replies_were_read(
    *, busy: bool, unread: int, idle: bool
) -> None:
    assert watch(Connection(), Connection(Transport(unread), busy)).is_idle() is idle


def test_all_are_aborted_at_the_end() -> None:
    connections = [Connection(), Connection(_request_in_progress=True)]
    watch(*connections).abort_all()
    assert all(one.is_aborted for one in connections)


MOST = 18
FRESH = math.inf
STRANGER: dict[str, Any] = {"is_known": False, "was_known": False}
CLOSED: list[dict[str, Any]] = [
    # of strangers beyond four, whose share that is: those at rest
    STRANGER | {"made": 3.0, "is_answered": True, "is_at_rest": True},
    STRANGER | {"made": FRESH, "is_answered": True, "is_at_rest": True},
    # then the oldest
    STRANGER | {"made": 1.0, "_request_in_progress": True},
    STRANGER | {"made": 2.0},
    # who idles, or is served what everybody may ask for
    {"replied": 1.0},
    {"replied": 2.0, "_request_in_progress": True, "is_known": False},
    # who does not read the rest of a reply
    {"transport": Transport(unread=1), "replied": 1.0},
    {"transport": Transport(unread=1), "replied": 2.0},
    # the other strangers
    STRANGER | {"made": 3.0, "is_asked": True},
    STRANGER | {"made": FRESH, "is_answered": True},
]  # fmt: skip
SPARED: list[dict[str, Any]] = [
    STRANGER | {"made": FRESH, "is_asked": True},
    {"is_asked": True},
    {"is_known": False, "is_asked": True},
    *[{"_request_in_progress": True, "transport": Transport(unread=5)}] * 5,
]


async def test_connections_are_closed_in_order_and_some_never() -> None:
    spared, closed = ([Connection(**one) for one in states] for states in (SPARED, CLOSED))
    server = SimpleNamespace(_connections=[*reversed(closed), *spared])
    watching = ConnectionWatch(cast("Any", server), SETTINGS)
    watching.max_connections = MOST
    while closed:
        assert watching.make_room() == len(closed[:2])
        assert [one.is_aborted for one in closed] == [True] * 2 + [False] * len(closed[2:])
        gone, closed = closed[:2], closed[2:]
        server._connections = [one for one in server._connections if one not in gone]
        server._connections += [Connection(_request_in_progress=True) for _ in gone]
    assert watching.make_room() == 0
    assert not any(one.is_aborted for one in spared)


@pytest.mark.parametrize(
    ("files", "asked", "expected"),
    [
        (256, 1000, (60, 100)),
        (1024, 1000, (348, 580)),
        (1024, 100, (100, 828)),
        (65_536, 1000, (1000, 64_440)),
        (64, 1000, (8, 16)),
        (-1, 1000, (1000, sys.maxsize - 1096)),
    ],
)
def test_more_callers_may_be_connected_than_served(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    files: int,
    asked: int,
    expected: tuple[int, int],
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    config = fit_to_files(load(tmp_path, f"[server]\nmax_in_flight = {asked}"))
    in_flight, _ = expected
    assert (config.server.max_in_flight, find_max_connections(config.server)) == expected
    assert config.account_limits.concurrency == in_flight // 2


def test_an_accounts_own_share_is_the_operators_to_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    config = fit_to_files(load(tmp_path, "[limits]\naccount_in_flight = 7"))
    assert config.account_limits.concurrency == 7


MODEL: Final = "plain/0"


@pytest.fixture
async def scene(tmp_path: Path, places: Places, alpha: ScriptedUpstream) -> AsyncIterator[Scene]:
    happening = Happening(drain_seconds=AMPLE_SECONDS)
    async with open_scene(happening, tmp_path, places, alpha) as scene:
        yield scene


@pytest.fixture
def gateway(scene: Scene) -> GatewayProcess:
    assert scene.process is not None
    return scene.process


async def check_refused(scene: Scene, gateway: GatewayProcess, kept: Call) -> None:
    """Check that new requests get a 503, on new connections and on an old one."""
    body = ASKS["chat"](MODEL)
    check_error(await gateway.post(CHAT, scene.key, body), 503, "server_is_overloaded")
    reply = await gateway.post(MESSAGES, scene.key, body)
    check_messages_error(reply, 503, "overloaded_error")
    headers = {"Content-Type": "application/json", "x-api-key": scene.key}
    await kept.send(request("POST", CHAT, headers, json.dumps(body).encode()))
    await kept.read_head()
    check_error(await kept.read_all(), 503, "server_is_overloaded")


async def test_what_is_in_flight_ends_and_what_is_new_is_refused(
    scene: Scene, gateway: GatewayProcess
) -> None:
    rows = GATEWAY["there is time"]
    async with in_flight(scene, rows, read=True) as requests, gateway.connect() as kept:
        await kept.send(request("GET", "/readyz"))
        assert (await kept.read_all()).status == 200
        scene.signal(signal.SIGTERM)
        while (await gateway.ask("GET", "/readyz")).status != 503:
            pass
        assert (await gateway.ask("GET", "/healthz")).status == 200
        await check_refused(scene, gateway, kept)
        scene.go_on.set()
        await asyncio.gather(*(one.end() for one in requests))
        for one in requests:
            check_last(one.reply, one.ending, one.caller, one.model, stream=one.stream)
    assert await scene.wait_for_exit() == 0, "it waits no longer than there is need"
    cost = REPORTED.cost_nano
    settled = read_all_settled(scene.books).values()
    assert list(settled) == [Settled("posted", "complete", cost, cost, 1)] * len(requests)


async def test_other_signals_end_nothing(scene: Scene, gateway: GatewayProcess) -> None:
    for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        scene.signal(number)
        await until(lambda: f"{number.name} is ignored" in gateway.log, "the log line")  # noqa: B023
    reply = await gateway.ask("GET", "/readyz")
    assert reply.status == 200
    assert reply.headers["server"] == "gateway"
