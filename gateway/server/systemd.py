"""Talk to systemd: passed sockets, states, the watchdog.

These are the protocols of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3). If something
else started the process, no socket is taken and nothing is reported. The variables are removed from
the environment, as they are not meant for child processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final

log = logging.getLogger("gateway.systemd")

FIRST_DESCRIPTOR: Final = 3
"""The first descriptor that is passed: SD_LISTEN_FDS_START of sd_listen_fds(3)."""
FAMILIES: Final = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
SEND_SECONDS: Final = 0.1
"""How long sending may block: the queue is full only if systemd itself hangs."""
PINGS_PER_INTERVAL: Final = 3
"""Pings per watchdog interval: systemd recommends two, and a busy loop may miss one of three."""
GRACE_SECONDS: Final = 15
"""Seconds that stopping takes beyond `drain_seconds` at most: cancelled requests, the ledger's queue and the
log have some each."""
SOCKET_BACKLOG: Final = 4096
"""Connections that the kernel queues while the service restarts: some seconds of 1,000 each."""


class BadSocket(Exception):
    """A passed descriptor is not a listening stream socket."""


@dataclass(frozen=True, slots=True)
class Manager:
    """The service manager that started this process, if there is one."""

    address: str = ""
    """The address of its notification socket; "" if there is none."""
    watchdog_seconds: float | None = None
    """The watchdog's time-out: systemd kills the process if there is no ping for so long."""

    def notify(self, *states: str) -> None:
        """Send states such as `READY=1`. A failure is logged and does not stop the server."""
        if not self.address:
            return
        # A line break would begin another assignment (sd_notify(3)).
        message = "\n".join(state.replace("\n", " ") for state in states)
        address = self.address
        if address.startswith("@"):  # an abstract socket address
            address = "\0" + address[1:]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(SEND_SECONDS)
                out.sendto(message.encode(), address)
        except OSError as error:
            log.warning("cannot send %s to systemd: %s", states[0], error)

    async def keep_alive(self) -> None:
        """Ping the watchdog three times per interval, until cancelled.

        This has to be a task, not a thread: if the event loop hangs, the pings must stop.
        """
        if self.watchdog_seconds is None:
            return
        while True:
            self.notify("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / PINGS_PER_INTERVAL)


def take_manager(environ: MutableMapping[str, str]) -> Manager:
    """Read the manager's variables and remove them from `environ`."""
    address = environ.pop("NOTIFY_SOCKET", "")
    pid, interval = environ.pop("WATCHDOG_PID", ""), environ.pop("WATCHDOG_USEC", "")
    # WATCHDOG_PID may be unset; if it names another process, that one is meant (sd_watchdog_enabled(3)).
    is_meant = pid in {"", str(os.getpid())} and interval.isdecimal() and int(interval) > 0
    return Manager(address, int(interval) / 1e6 if is_meant else None)


def take_sockets(environ: MutableMapping[str, str]) -> tuple[socket.socket, ...]:
    """Take the listening stream sockets that were passed. Raises BadSocket."""
    taken = {name: environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")}
    # A parent may have left its own variables in the environment (sd_listen_fds(3)).
    is_meant = taken["PID"] == str(os.getpid()) and taken["FDS"].isdecimal()
    count = int(taken["FDS"]) if is_meant else 0
    return tuple(_take_socket(FIRST_DESCRIPTOR + number) for number in range(count))


def _take_socket(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)  # the operator's commands must not keep it open
        passed = socket.socket(fileno=descriptor)
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise BadSocket(
            f"the passed descriptor {descriptor} cannot be used: {error.strerror}"
        ) from error
    if passed.family not in FAMILIES or passed.type != socket.SOCK_STREAM or not listens:
        passed.detach()  # leave it open: something else may own it
        raise BadSocket(
            f"the passed descriptor {descriptor} is not a listening stream socket; "
            "set ListenStream= in the socket unit, and do not set Accept=yes"
        )
    return passed
