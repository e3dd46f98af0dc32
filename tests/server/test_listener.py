"""Sockets to listen on: of our own, or passed by systemd."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.config.records import Config
from gateway.server.connections import watch_connections
from gateway.server.listener import CannotListen, Listener, _advise, bind, check_address
from tests.support.process import free_port
from tests.support.rows import each_row
from tests.support.settings import load

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def configure(folder: Path, port: int = 0) -> Config:
    return load(folder, f'[server]\nhost = "127.0.0.1"\nport = {port}\n')


@contextlib.asynccontextmanager
async def listening(config: Config, *passed: socket.socket) -> AsyncIterator[Listener]:
    async def reply(_: web.BaseRequest) -> web.Response:
        return web.Response(text="here")

    server = web.Server(reply)
    listener = await bind(server, watch_connections(server, config.server), config.server, passed)
    yield listener
    listener.close()
    listener.close()
    await server.shutdown()


async def ask(connecting: Coroutine[Any, Any, Connected]) -> bytes:
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
        assert (await ask(asyncio.open_connection(host, int(port)))).endswith(b"here")


async def test_an_address_in_use_is_said_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            CannotListen, match=rf"127.0.0.1:{port}: .*stop it, or set \[server\] port"
        ):
            async with listening(configure(tmp_path, port)):
                pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_no_machine_is_said_with_what_to_do(tmp_path: Path, host: str) -> None:
    settings = replace(configure(tmp_path).server, host=host)
    with pytest.raises(CannotListen, match=r"set \[server\] host and port in gateway.toml to an"):
        check_address(settings)


def test_a_free_address_stays_free(tmp_path: Path) -> None:
    settings = configure(tmp_path, free_port()).server
    check_address(settings)
    check_address(settings)


@each_row(
    ("number", "advice"),
    [
        (errno.EADDRINUSE, "another program listens there"),
        (errno.EACCES, "ports below 1024 are for root"),
        (errno.ENOENT, "set [server] host and port"),
    ],
)
def test_each_failure_gets_its_advice(number: int, advice: str) -> None:
    assert _advise(OSError(number, "its words")).startswith(advice)


async def test_passed_sockets_are_used_and_named(tmp_path: Path) -> None:
    """The address for callers on this machine is one with a port, if there is one."""
    path = tmp_path / "x.sock"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        unix.bind(str(path))
        unix.listen()
        port = tcp.getsockname()[1]
        async with listening(configure(tmp_path, 8080), unix, tcp) as listener:
            assert listener.names == (f"unix:{path}", f"http://127.0.0.1:{port}")
            assert (listener.address, listener.is_passed) == (f"127.0.0.1:{port}", True)
            listener.start()
            assert (await ask(asyncio.open_unix_connection(path))).endswith(b"here")
        assert path.exists(), "the path is systemd's"


async def test_behind_unix_sockets_alone_the_configured_address_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0gateway-test-" + tmp_path.name)
        unix.listen()
        async with listening(configure(tmp_path, 8080), unix) as listener:
            assert listener.names == (f"unix:@gateway-test-{tmp_path.name}",)
            assert listener.address == "127.0.0.1:8080"
