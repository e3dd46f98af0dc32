"""Functions of the server as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import errno
import os

from gateway.server import listener
from gateway.server.systemd import Manager, take_manager


def advise(error: str) -> str:
    return listener._ADVICE.get(getattr(errno, error), listener._OTHER_ADVICE)


def read_watchdog(usec: str | None = None, pid: str | None = None) -> float | None:
    """Read the seconds of the watchdog from the variables, which are taken away; `ME` is this process."""
    given = {"WATCHDOG_USEC": usec, "WATCHDOG_PID": str(os.getpid()) if pid == "ME" else pid}
    known = {name: one for name, one in given.items() if one is not None}
    variables = {**known, "NOTIFY_SOCKET": "/run/x", "PATH": "/bin"}
    manager = take_manager(variables)
    assert variables == {"PATH": "/bin"}
    assert manager == Manager("/run/x", manager.watchdog_seconds)
    return manager.watchdog_seconds
