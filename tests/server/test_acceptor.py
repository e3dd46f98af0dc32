"""Connections and open files: idle callers give way, and running out of files is no disaster."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.server import connections
from gateway.server.connections import find_max_connections
from tests.support import config, seed
from tests.support.client import Call, request
from tests.support.process import GatewayProcess, free_port
from tests.support.seed import Seed
from tests.support.waiting import until

OPEN_FILES: Final = 256
MOST: Final = (OPEN_FILES - connections.OWN_FILES) // connections.FILES_PER_CALLER
CROWD: Final = OPEN_FILES + 50
FULL: Final = f"{MOST} connections are as many as open files allow"
IN_USE: Final = "no connection can be accepted (all connections are in use)"
EXHAUSTED: Final = "no connection can be accepted (Too many open files)"


@pytest.fixture
def cramped(tmp_path: Path, places: config.Places) -> Iterator[GatewayProcess]:
    """A gateway that may have few files open; stopping it proves that it logged no traceback."""
    gateway = GatewayProcess(tmp_path, free_port())
    kinds = {"plain": config.Kind(("alpha",), 1)}
    text = config.write_config(places, port=gateway.port, kinds=kinds)
    gateway.config.write_text(text, encoding="utf-8")
    seed.seed(gateway.database, (Seed("rich"),))
    gateway.start(open_files=OPEN_FILES)
    yield gateway
    gateway.stop()


@contextlib.asynccontextmanager
async def crowd(gateway: GatewayProcess, first_bytes: bytes = b"") -> AsyncIterator[None]:
    """Open more connections than there may be, all of them idle."""
    with contextlib.ExitStack() as stack:
        for _ in range(CROWD):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
            with contextlib.suppress(ConnectionError):
                one.sendall(first_bytes)
        yield


async def ask_health(call: Call) -> int:
    await call.send(request("GET", "/healthz"))
    await call.read_head()
    return (await call.read_all()).status


@pytest.mark.parametrize("first_bytes", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nHost"])
async def test_idle_connections_give_way(cramped: GatewayProcess, first_bytes: bytes) -> None:
    async with crowd(cramped, first_bytes):
        for _ in range(3):
            assert (await cramped.ask("GET", "/healthz")).status == 200
    await until(lambda: FULL in cramped.log, "the warning")
    assert cramped.log.count(FULL) == 1
    assert EXHAUSTED not in cramped.log


async def test_connections_that_had_a_request_are_the_last_to_give_way(
    cramped: GatewayProcess,
) -> None:
    async with cramped.connect() as call:
        assert await ask_health(call) == 200
        async with crowd(cramped):
            await until(lambda: FULL in cramped.log, "the warning")
            assert await ask_health(call) == 200


async def test_callers_wait_while_all_connections_are_in_use(cramped: GatewayProcess) -> None:
    headers = {"Content-Type": "application/json", "Expect": "100-continue"}
    head = request("POST", "/console/api/session", headers, b"{}")[:-2]
    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", cramped.port)))
            one.sendall(head)
            assert one.recv(1024).startswith(b"HTTP/1.1 100 ")
        stack.enter_context(socket.create_connection(("127.0.0.1", cramped.port)))
        await until(lambda: IN_USE in cramped.log, "the warning")
    assert (await cramped.ask("GET", "/healthz")).status == 200


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


@pytest.mark.parametrize(
    ("files", "expected"), [(256, 80), (1024, 464), (65_536, 32_720), (64, 16), (-1, 2**63 - 1)]
)
def test_each_caller_leaves_room_for_a_provider(
    monkeypatch: pytest.MonkeyPatch, files: int, expected: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert find_max_connections() == expected
