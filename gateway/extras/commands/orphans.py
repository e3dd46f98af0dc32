"""Reaps orphans if the gateway is process 1, as in a container, where nobody else waits for them.

A command that prints a key may leave a child behind. That becomes a child of process 1 when the command ends,
and a zombie when it ends itself. Code of this process that starts a child waits for it at once. So a zombie
that is found in two checks in a row is an orphan.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from gateway.base.turns import spawn

INIT: Final = 1
"""The process that gets the orphans of its container."""
LOOK_SECONDS: Final = 2.0
"""Seconds between two checks: a child that this process started is reaped within milliseconds of its end."""
_ANY_ENDED: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT


@asynccontextmanager
async def run() -> AsyncIterator[None]:
    """Reap while the gateway serves, if it is the process that gets the orphans."""
    if os.getpid() != INIT:
        yield
        return
    reaping = spawn(reap(), name="orphans")
    try:
        yield
    finally:
        reaping.cancel()


async def reap() -> None:
    """Reap orphans until cancelled."""
    seen: set[int] = set()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        seen = reap_seen(seen)


def reap_seen(seen: set[int]) -> set[int]:
    """Reap the zombies that the last check found, too; return those found for the first time."""
    zombies = find_zombies()
    for pid in zombies & seen:
        with suppress(ChildProcessError):  # its own code has waited for it after all
            os.waitpid(pid, os.WNOHANG)
    return zombies - seen


def find_zombies() -> set[int]:
    """Return this process's children that have ended and were not waited for."""
    try:
        if os.waitid(os.P_ALL, 0, _ANY_ENDED) is None:  # usually no child has ended
            return set()
    except ChildProcessError:  # there are no children
        return set()
    wanted = ("Z", str(os.getpid()))
    found = Path("/proc").glob("[0-9]*")
    return {int(one.name) for one in found if _read_state(one) == wanted}


def _read_state(process: Path) -> tuple[str, str] | None:
    """Return the state and the parent of a process; None if it is gone."""
    try:
        status = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name is in parentheses, and may itself contain some.
    state, parent, *_ = status.rpartition(")")[2].split()
    return state, parent
