"""Listen on the configured address, or on sockets that systemd passed."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from aiohttp import web

from gateway.addresses import join_address
from gateway.config import Server
from gateway.server.units import SOCKET_BACKLOG

BACKLOG: Final = 1024
"""Connections that the kernel queues: a burst as large as `max_in_flight`."""


class _Adopting(TypedDict):
    """Options of a server on a socket that was passed."""

    sock: socket.socket
    backlog: int
    start_serving: bool


class CannotListen(Exception):
    """The address is in use or cannot be bound."""


@dataclass(frozen=True, slots=True)
class Listener:
    """All sockets that the gateway listens on."""

    servers: tuple[asyncio.Server, ...]
    names: tuple[str, ...]
    """Their addresses as people write them, with the port that was bound."""
    address: str
    """`host:port` for callers on this machine."""
    is_passed: bool
    """Whether systemd passed the sockets; it has a copy, so the queue outlives this process."""

    async def start(self) -> None:
        for one in self.servers:
            await one.start_serving()

    def close(self) -> None:
        """Accept no more connections. Passed sockets go on queueing. May be called again."""
        for one in self.servers:
            one.close()


async def bind(
    server: web.Server, settings: Server, passed: Sequence[socket.socket] = ()
) -> Listener:
    """Bind the address, or take the passed sockets, without accepting yet. Raises CannotListen."""
    if passed:
        names = tuple(_name(one) for one in passed)
        servers = [await _adopt(server, one) for one in passed]
    else:
        servers = [await _take_address(server, settings.host, settings.port)]
        names = tuple(_name(one) for one in servers[0].sockets[:1])
    reachable = (name for name in names if not name.startswith("unix:"))
    # Fallback for UNIX sockets only: the proxy in front may well use the configured address.
    configured = f"{settings.host}:{settings.port}"
    return Listener(
        tuple(servers),
        tuple(name if name.startswith("unix:") else f"http://{name}" for name in names),
        next(reachable, configured),
        is_passed=bool(passed),
    )


async def _take_address(server: web.Server, host: str, port: int) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(
            server, host, port, backlog=BACKLOG, reuse_address=True, start_serving=False
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise CannotListen(
            f"cannot listen on {host}:{port}: {reason}; set [server] host and port in gateway.toml"
        ) from error


async def _adopt(server: web.Server, passed: socket.socket) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    # asyncio calls listen() again, which sets the queue of the socket that systemd shares.
    options: _Adopting = {"sock": passed, "backlog": SOCKET_BACKLOG, "start_serving": False}
    if passed.family != socket.AF_UNIX:
        return await loop.create_server(server, **options)
    if sys.version_info >= (3, 13):  # by default close() removes the path, which is systemd's
        return await loop.create_unix_server(server, **options, cleanup_socket=False)
    return await loop.create_unix_server(server, **options)


def _name(listening: socket.socket) -> str:
    address = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        path = os.fsdecode(address)
        return f"unix:@{path[1:]}" if path.startswith("\0") else f"unix:{path}"
    host, port = address[:2]
    return join_address(host, port)
