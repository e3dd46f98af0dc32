"""Listen on the configured address, or on sockets that systemd passed."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.base.addresses import join_address, list_hosts
from gateway.base.turns import spawn
from gateway.config.records import Server
from gateway.server.systemd import SOCKET_BACKLOG

if TYPE_CHECKING:
    from gateway.server.connections import ConnectionWatch  # `check` needs no web server

BACKLOG: Final = 1024
"""Connections that the kernel queues: a burst as large as `max_in_flight`."""
NOT_HERE: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""A name may have an IPv6 address that this machine, often a container, lacks."""


class CannotListen(Exception):
    """The address is in use or cannot be bound."""


@dataclass(frozen=True, slots=True)
class Listener:
    """All sockets that the gateway listens on."""

    acceptors: tuple[Acceptor, ...]
    names: tuple[str, ...]
    """Their addresses as people write them, with the port that was bound."""
    address: str
    """`host:port` for callers on this machine."""
    is_passed: bool
    """Whether systemd passed the sockets; it has a copy, so the queue outlives this process."""

    def start(self) -> None:
        for one in self.acceptors:
            # Listening again sets the queue's length of a socket that systemd passed.
            one.start(SOCKET_BACKLOG if self.is_passed else BACKLOG)

    def close(self) -> None:
        """Accept no more connections. Passed sockets go on queueing. May be called again."""
        for one in self.acceptors:
            one.close()


async def bind(
    connect: Callable[[], asyncio.BaseProtocol],
    connections: ConnectionWatch,
    settings: Server,
    passed: Sequence[socket.socket] = (),
) -> Listener:
    """Bind the address, or take the passed sockets, without accepting yet.

    `connect` makes the protocol of a connection. Raises CannotListen.
    """
    sockets = passed or await _take_address(settings.host, settings.port)
    names = tuple(_name(one) for one in sockets)
    reachable = (name for name in names if not name.startswith("unix:"))
    # Fallback for UNIX sockets only: the proxy in front may well use the configured address.
    configured = f"{settings.host}:{settings.port}"
    return Listener(
        tuple(Acceptor(one, connections, connect) for one in sockets),
        tuple(name if name.startswith("unix:") else f"http://{name}" for name in names),
        next(reachable, configured),
        is_passed=bool(passed),
    )


async def _take_address(host: str, port: int) -> list[socket.socket]:
    """Bind every address that the host has. Raises CannotListen."""
    try:
        return await bind_host(host, port)
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, _OTHER_ADVICE)
        raise CannotListen(
            f"cannot listen on {join_address(host, port)}: {advice} ({error.strerror})"
        ) from error


async def bind_host(host: str, port: int) -> list[socket.socket]:
    """Bind every address that a host has, to one port: `localhost` may be two. Raises OSError."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        # getaddrinfo may give an address twice, and the second bind would fail.
        for family, address in dict.fromkeys(await _look_up(host, port)):
            # With port 0, which means any, the first address chooses the port of all.
            chosen = sockets[0].getsockname()[1] if sockets else port
            try:
                sockets.append(_bind(family, (address[0], chosen, *address[2:])))
            except OSError as error:
                if error.errno not in NOT_HERE:
                    raise
                missing = error
        if missing is not None and not sockets:
            raise missing
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


async def _look_up(host: str, port: int) -> list[tuple[int, tuple[str | int | bytes, ...]]]:
    """Return families and addresses to listen on."""
    loop, found = asyncio.get_running_loop(), []
    for one in list_hosts(host):
        found += await loop.getaddrinfo(one, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address) for family, _, _, _, address in found]


_ADVICE: Final = {
    errno.EADDRINUSE: "another program, or another table of gateway.toml, listens there; stop the program, or"
    " set [server] port in gateway.toml",
    errno.EACCES: "ports below 1024 are for root alone; set [server] port in gateway.toml, or let systemd"
    " listen (`unit --socket`)",
}
"""Says how to go on after an address could not be bound."""
_OTHER_ADVICE: Final = "set [server] host and port in gateway.toml to an address of this machine"


def find_listen_problem(settings: Server) -> str | None:
    """Bind the configured address and let it go; return why it cannot be bound, or None."""
    try:
        for one in asyncio.run(_take_address(settings.host, settings.port)):
            one.close()
    except CannotListen as error:
        return str(error)
    return None


def _bind(family: int, address: tuple[str | int | bytes, ...]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A restart must not wait for connections of the last process in TIME_WAIT.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # IPv4 gets a separate socket
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _name(listening: socket.socket) -> str:
    address = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        path = os.fsdecode(address)
        return f"unix:@{path[1:]}" if path.startswith("\0") else f"unix:{path}"
    host, port = address[:2]
    return join_address(host, port)


BATCH: Final = 16
"""Connections per turn of the event loop, which has other things to do: each takes some 0.1 ms."""
PAUSE_SECONDS: Final = 1.0
"""How long nothing is accepted where files have run out: connections end meanwhile."""
FULL_SECONDS: Final = 0.1
"""Seconds for which nothing is accepted while no connection can be closed for it: requests end meanwhile, and
to try in each turn would keep the loop busy."""
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors for want of resources here. Others belong to a connection whose caller has left."""


@dataclass(slots=True, eq=False)
class Acceptor:
    """Passes connections to the server while the watch has room."""

    _listening: socket.socket
    _connections: ConnectionWatch
    _connect: Callable[[], asyncio.BaseProtocol]
    """Makes the protocol of a connection."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _retry: asyncio.TimerHandle | None = None

    def start(self, backlog: int) -> None:
        self._listening.setblocking(False)
        self._listening.listen(backlog)
        self._resume()

    def close(self) -> None:
        """Close the socket. Connections that were accepted stay open."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        room = self._connections.make_room()
        if not room:
            self._pause(FULL_SECONDS, "all connections are in use")
        for _ in range(min(room, BATCH)):
            try:
                connection, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._pause(PAUSE_SECONDS, os.strerror(error.errno))
                return
            self._connections.arriving += 1
            _ = spawn(self._serve(connection), name="connection")

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._connect, connection)
        except OSError:  # the caller has left
            connection.close()
        finally:
            self._connections.arriving -= 1

    def _pause(self, seconds: float, reason: str) -> None:
        """Leave callers in the kernel's queue for a moment."""
        self._loop.remove_reader(self._listening)
        # The queue stays readable: with a reader the loop would call `_accept` in each turn.
        self._retry = self._loop.call_later(seconds, self._resume)
        self._connections.warn("no connection can be accepted (%s): callers wait", reason)
