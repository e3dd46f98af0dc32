"""Reap orphans where the gateway is process 1, as in a container: nobody else waits for them there.

A command that prints a key may leave a child behind, which becomes a child of process 1 when the command
ends, and a zombie when it ends itself. Children that this process made are waited for by those who made
them, at once: a zombie that two looks find is nobody's.
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
"""The pause between two looks; a child of ours is waited for within milliseconds of its end."""
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
    """Reap what nobody waits for, until cancelled."""
    seen: set[int] = set()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        seen = reap_seen(seen)


def reap_seen(seen: set[int]) -> set[int]:
    """Reap the zombies that the last look has seen; return those that are seen for the first time."""
    zombies = find_zombies()
    for pid in zombies & seen:
        with suppress(ChildProcessError):  # whoever made it was very late
            os.waitpid(pid, os.WNOHANG)
    return zombies - seen


def find_zombies() -> set[int]:
    """Return this process's children that have ended and were not waited for."""
    try:
        if os.waitid(os.P_ALL, 0, _ANY_ENDED) is None:  # one call, and most often the only one
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
    # The name stands in parentheses, and may have some of its own.
    state, parent, *_ = status.rpartition(")")[2].split()
    return state, parent
