"""Where connections come from: an address of our own, or sockets that systemd passed."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from gateway.addresses import join_address
from gateway.config import Server

BACKLOG: Final = 1024
PASSED_BACKLOG: Final = 4096
"""As the socket unit has it: asyncio listens again, and that sets the queue of the shared socket."""


class CannotListen(Exception):
    """The address is taken or not ours, or what was passed is no listening socket."""


@dataclass(frozen=True, slots=True)
class Listener:
    """All that is listened on, as one."""

    servers: tuple[asyncio.Server, ...]
    names: tuple[str, ...]
    """As people write them; port 0 was any free one."""
    address: str
    """`host:port` for callers on this machine."""
    is_passed: bool
    """Whether somebody else has the sockets too, and so keeps the queue when we close ours."""

    async def start(self) -> None:
        for one in self.servers:
            await one.start_serving()

    def close(self) -> None:
        """Accept no more; harmless when repeated. Passed sockets go on queueing."""
        for one in self.servers:
            one.close()


async def bind(
    server: web.Server, settings: Server, passed: Sequence[socket.socket] = ()
) -> Listener:
    """Take the address, or what was passed instead, but no connections yet. Raises CannotListen."""
    if passed:
        names = tuple(_name(one) for one in passed)
        servers = [await _adopt(server, one) for one in passed]
    else:
        servers = [await _take_address(server, settings.host, settings.port)]
        names = tuple(_name(one) for one in servers[0].sockets[:1])
    reachable = (name for name in names if not name.startswith("unix:"))
    configured = f"{settings.host}:{settings.port}"  # where the proxy before a UNIX socket may be
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
        raise CannotListen(f"cannot listen on {host}:{port}: {reason}") from error


async def _adopt(server: web.Server, passed: socket.socket) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {
        "sock": passed, "backlog": PASSED_BACKLOG, "start_serving": False,
    }  # fmt: skip
    if passed.family != socket.AF_UNIX:
        return await loop.create_server(server, **options)
    if sys.version_info >= (3, 13):  # else closing it would remove the path that is not ours
        options["cleanup_socket"] = False
    return await loop.create_unix_server(server, **options)


def _name(listening: socket.socket) -> str:
    address = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        path = os.fsdecode(address)
        return f"unix:@{path[1:]}" if path.startswith("\0") else f"unix:{path}"
    host, port = address[:2]
    return join_address(host, port)
