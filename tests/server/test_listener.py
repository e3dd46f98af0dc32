"""Sockets to listen on: of our own, or passed by systemd."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.config import Config
from gateway.server.connections import watch_connections
from gateway.server.listener import CannotListen, Listener, bind
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
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}.*in use.*host and port"):
            async with listening(configure(tmp_path, port)):
                pass


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
