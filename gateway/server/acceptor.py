"""Accept the connections of one listening socket.

asyncio's own server accepts until descriptors run out, and then logs a traceback for each attempt.
This one asks for room first, and waits where there is none.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

from gateway.server.connections import ConnectionWatch
from gateway.tasks import spawn

BATCH: Final = 16
"""Connections per turn of the event loop, which has other things to do: each takes some 0.1 ms."""
PAUSE_SECONDS: Final = 1.0
"""How long nothing is accepted where files have run out: connections end meanwhile."""
FULL_SECONDS: Final = 0.1
"""How long nothing is accepted while no connection can be closed for it."""
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of ours. Others belong to the connection, whose caller has left."""


class Acceptor:
    """Passes connections to the server while the watch has room."""

    def __init__(
        self,
        listening: socket.socket,
        connections: ConnectionWatch,
        connect: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """`connect` makes the protocol of a connection."""
        self._listening = listening
        self._connect = connect
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None

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
        self._retry = self._loop.call_later(seconds, self._resume)
        self._connections.warn("no connection can be accepted (%s): callers wait", reason)
