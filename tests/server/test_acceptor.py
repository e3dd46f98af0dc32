"""Connections and open files: idle callers give way, and running out of files is no disaster."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.ledger.key_records import Terms
from gateway.server import connections
from tests.support import config, seed
from tests.support.client import Call, request
from tests.support.process import GatewayProcess, free_port
from tests.support.seed import Seed
from tests.support.waiting import until

OPEN_FILES: Final = 256
ROOM: Final = OPEN_FILES - connections.OWN_FILES
IN_FLIGHT: Final = int(ROOM * connections.IN_FLIGHT_SHARE)
MOST: Final = ROOM - IN_FLIGHT
CROWD: Final = OPEN_FILES + 50
FULL: Final = f"{MOST} connections are as many as open files allow"
EXHAUSTED: Final = "no connection can be accepted (Too many open files)"


@pytest.fixture
def cramped(tmp_path: Path, places: config.Places) -> Iterator[GatewayProcess]:
    """A gateway that may have few files open; stopping it proves that it logged no traceback."""
    gateway = GatewayProcess(tmp_path, free_port())
    kinds = {"plain": config.Kind(("alpha",), 1)}
    text = config.write_config(places, port=gateway.port, kinds=kinds)
    gateway.config.write_text(text, encoding="utf-8")
    seed.seed(gateway.database, (Seed("rich", account=Terms(concurrency=0)),))
    gateway.start(open_files=OPEN_FILES)
    yield gateway
    gateway.stop()


@contextlib.asynccontextmanager
async def crowd(
    gateway: GatewayProcess, first_bytes: bytes = b""
) -> AsyncIterator[list[socket.socket]]:
    """Open more connections than there may be, none of which sends a whole request."""
    opened: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        for _ in range(CROWD):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
            with contextlib.suppress(ConnectionError):
                one.sendall(first_bytes)
            opened.append(one)
        yield opened


async def ask(call: Call, path: str = "/healthz", key: str = "") -> int:
    await call.send(request("GET", path, {"x-api-key": key}))
    await call.read_head()
    return (await call.read_all()).status


async def add_key(gateway: GatewayProcess) -> str:
    key = (await gateway.run("key", "add", "rich", "--concurrency", "0")).out.strip()
    gateway.canaries.append(key.encode())
    return key


def is_closed(one: socket.socket) -> bool:
    """Return whether the gateway has closed it, without waiting."""
    poll = select.poll()
    poll.register(one, select.POLLRDHUP)
    return bool(poll.poll(0))


@pytest.mark.parametrize(
    "first_bytes",
    [pytest.param(b"", marks=pytest.mark.slow), b"POST /v1/chat/completions HTTP/1.1\r\nHost"],
)
async def test_idle_connections_give_way(cramped: GatewayProcess, first_bytes: bytes) -> None:
    async with crowd(cramped, first_bytes):
        for _ in range(3):
            assert (await cramped.ask("GET", "/healthz")).status == 200
    await until(lambda: FULL in cramped.log, "the warning")
    assert cramped.log.count(FULL) == 1
    assert EXHAUSTED not in cramped.log


async def test_strangers_cost_nobody_with_a_key_a_connection(cramped: GatewayProcess) -> None:
    """Not by bodies that never come whole, either: the console reads those of a sign-in."""
    headers = {"Content-Type": "application/json", "Expect": "100-continue"}
    head = request("POST", "/console/api/session", headers, b"{}")[:-2]
    key = await add_key(cramped)
    async with cramped.connect() as known:
        assert await ask(known, "/v1/key", key) == 200
        async with crowd(cramped, head) as strangers:
            await until(lambda: FULL in cramped.log, "the warning")
            assert await ask(known, "/v1/key", key) == 200
            async with cramped.connect() as new:
                assert await ask(new, "/v1/key", key) == 200
            closed = [is_closed(one) for one in strangers]
            assert closed == sorted(closed, reverse=True), "the oldest are closed first"
            assert 0 < closed.count(True) < len(closed)


async def test_who_comes_too_many_gets_a_503(cramped: GatewayProcess) -> None:
    """Nobody waits in vain, and nobody who was let in is cut, though their bodies are slow."""
    key = await add_key(cramped)
    headers = {"Content-Type": "application/json", "Expect": "100-continue", "x-api-key": key}
    head = request("POST", "/v1/chat/completions", headers, b"{}")[:-2]
    with contextlib.ExitStack() as stack:
        admitted = []
        for _ in range(IN_FLIGHT):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", cramped.port)))
            one.sendall(head)
            assert one.recv(1024).startswith(b"HTTP/1.1 100 ")
            admitted.append(one)
        async with crowd(cramped, head), cramped.connect() as call:
            assert await ask(call, "/v1/key", key) == 503
        assert not any(is_closed(one) for one in admitted)


async def test_running_out_of_files_pauses_accepting(cramped: GatewayProcess) -> None:
    """asyncio would log a traceback for each attempt, many thousands a second."""
    assert cramped.process is not None
    pid = cramped.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, OPEN_FILES))
    with socket.create_connection(("127.0.0.1", cramped.port)):
        await until(lambda: EXHAUSTED in cramped.log, "the warning")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert (await cramped.ask("GET", "/healthz")).status == 200
    assert cramped.log.count(EXHAUSTED) == 1
