"""What systemd hands to a service and what it is told: sockets, states, a heartbeat.

The protocols of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3). Started by anything
else, there is nothing to take and nobody to tell. The variables are taken out of the environment,
as they are meant for this process and no child of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

log = logging.getLogger("gateway.systemd")

FIRST_DESCRIPTOR: Final = 3
FAMILIES: Final = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
SEND_SECONDS: Final = 0.1
"""How long telling may block: the queue is full only while systemd itself hangs."""
PINGS_PER_INTERVAL: Final = 3


class BadSocket(Exception):
    """A descriptor was passed on which nobody can connect."""


@dataclass(frozen=True, slots=True)
class Manager:
    """The service manager, as far as it wants to know of us."""

    address: str = ""
    """Where it is told; "" when nobody asked."""
    watchdog_seconds: float | None = None
    """Silence after which it takes us for hung."""

    def notify(self, *states: str) -> None:
        """Tell it, such as `READY=1`. What cannot be told is logged: serving goes on."""
        if not self.address:
            return
        message = "\n".join(state.replace("\n", " ") for state in states)
        address = self.address
        if address.startswith("@"):  # a name that is in no file system
            address = "\0" + address[1:]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(SEND_SECONDS)
                out.sendto(message.encode(), address)
        except OSError as error:
            log.warning("systemd was not told %s: %s", states[0], error)

    async def keep_alive(self) -> None:
        """Ping as long as the event loop turns, three times in an interval.

        From a task, never from a thread: a loop that hangs must fall silent.
        """
        if self.watchdog_seconds is None:
            return
        while True:
            self.notify("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / PINGS_PER_INTERVAL)


def take_manager(environ: MutableMapping[str, str]) -> Manager:
    """Who started this process and wants to be told."""
    address = environ.pop("NOTIFY_SOCKET", "")
    pid, interval = environ.pop("WATCHDOG_PID", ""), environ.pop("WATCHDOG_USEC", "")
    is_meant = pid in {"", str(os.getpid())} and interval.isdecimal() and int(interval) > 0
    return Manager(address, int(interval) / 1e6 if is_meant else None)


def take_sockets(environ: MutableMapping[str, str]) -> tuple[socket.socket, ...]:
    """The listening stream sockets that were passed. Raises BadSocket."""
    taken = {name: environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")}
    return tuple(
        _take_socket(FIRST_DESCRIPTOR + number) for number in range(_count_descriptors(taken))
    )


def _count_descriptors(taken: Mapping[str, str]) -> int:
    """How many there are; none when they were meant for another process."""
    is_meant = taken["PID"] == str(os.getpid()) and taken["FDS"].isdecimal()
    return int(taken["FDS"]) if is_meant else 0


def _take_socket(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        passed = socket.socket(fileno=descriptor)
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise BadSocket(f"passed descriptor {descriptor}: {error.strerror}") from error
    if passed.family not in FAMILIES or passed.type != socket.SOCK_STREAM or not listens:
        passed.detach()  # whose it may be is not known
        raise BadSocket(
            f"passed descriptor {descriptor} is no listening stream socket; "
            "a socket unit for the gateway has ListenStream= and not Accept=yes"
        )
    return passed
