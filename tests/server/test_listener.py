"""Sockets to listen on, of our own or passed by systemd; idle callers give way where files run out."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import select
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from gateway.config.records import Config
from gateway.ledger.key_records import Terms
from gateway.server import connections
from gateway.server.connections import ConnectionWatch
from gateway.server.listener import CannotListen, Listener, bind, find_listen_problem
from tests.support import config, seed
from tests.support.client import Call, request
from tests.support.process import GatewayProcess, free_port
from tests.support.seed import Seed
from tests.support.settings import load
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
async def crowd(gateway: GatewayProcess, first_bytes: bytes) -> AsyncIterator[list[socket.socket]]:
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


async def test_connections_without_a_whole_request_give_way(cramped: GatewayProcess) -> None:
    async with crowd(cramped, b"POST /v1/chat/completions HTTP/1.1\r\nHost"):
        for _ in range(3):
            assert (await cramped.ask("GET", "/healthz")).status == 200
    await until(lambda: FULL in cramped.log, "the warning")
    assert cramped.log.count(FULL) == 1
    assert EXHAUSTED not in cramped.log


@pytest.mark.slow
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


@pytest.mark.slow
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


Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def configure(folder: Path, port: int = 0, host: str = "127.0.0.1") -> Config:
    return load(folder, f'[server]\nhost = "{host}"\nport = {port}\n')


@contextlib.asynccontextmanager
async def listening(config: Config, *passed: socket.socket) -> AsyncIterator[Listener]:
    async def reply(_: web.BaseRequest) -> web.Response:
        return web.Response(text="here")

    server = web.Server(reply)
    listener = await bind(server, ConnectionWatch(server, config.server), config.server, passed)
    yield listener
    listener.close()
    listener.close()
    await server.shutdown()


async def ask_over(connecting: Coroutine[Any, Any, Connected]) -> bytes:
    reader, writer = await connecting
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(60):
        reply: bytes = await reader.read()
    writer.close()
    return reply


async def test_connections_wait_until_it_starts(tmp_path: Path) -> None:
    async with listening(configure(tmp_path)) as listener:
        host, _, port = listener.address.partition(":")
        assert listener.names == (f"http://{listener.address}",)
        assert not listener.is_passed
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
        listener.start()
        assert (await ask_over(asyncio.open_connection(host, int(port)))).endswith(b"here")


@pytest.mark.parametrize("host", ["::", "*"])
async def test_all_addresses_are_those_of_both_families(tmp_path: Path, host: str) -> None:
    async with listening(configure(tmp_path, host=host)) as listener:
        listener.start()
        port = listener.address.rpartition(":")[2]
        assert listener.names == (f"http://[::]:{port}", f"http://0.0.0.0:{port}")
        for one in ("::1", "127.0.0.1"):
            assert (await ask_over(asyncio.open_connection(one, int(port)))).endswith(b"here")


async def test_an_address_in_use_is_said_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            CannotListen, match=rf"127.0.0.1:{port}: .*stop the program, or set \[server\] port"
        ):
            async with listening(configure(tmp_path, port)):
                pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_no_machine_is_said_with_what_to_do(tmp_path: Path, host: str) -> None:
    settings = replace(configure(tmp_path).server, host=host)
    told = find_listen_problem(settings) or ""
    assert "set [server] host and port in gateway.toml to an" in told


def test_a_free_address_stays_free(tmp_path: Path) -> None:
    settings = configure(tmp_path, free_port()).server
    assert find_listen_problem(settings) is None
    assert find_listen_problem(settings) is None


async def test_passed_sockets_are_used_and_named(tmp_path: Path) -> None:
    """The address for callers on this machine is one with a port, if there is one."""
    path = tmp_path / "x.sock"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        unix.listen()
        port = tcp.getsockname()[1]
        async with listening(configure(tmp_path, 8080), unix, tcp) as listener:
            assert listener.names == (f"unix:{path}", f"http://127.0.0.1:{port}")
            assert (listener.address, listener.is_passed) == (f"127.0.0.1:{port}", True)
            listener.start()
            assert (await ask_over(asyncio.open_unix_connection(path))).endswith(b"here")
        assert path.exists(), "the path is systemd's"


async def test_behind_unix_sockets_alone_the_configured_address_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0gateway-test-" + tmp_path.name)
        unix.listen()
        async with listening(configure(tmp_path, 8080), unix) as listener:
            assert listener.names == (f"unix:@gateway-test-{tmp_path.name}",)
            assert listener.address == "127.0.0.1:8080"
