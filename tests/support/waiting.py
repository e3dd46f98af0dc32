"""Waiting for what has no event: a log line, a row of another process, two counts together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

POLL_SECONDS: Final = 0.005


async def until(condition: Callable[[], object], what: str, *, seconds: float = 5.0) -> None:
    """Return once the condition is true; fail, saying what was waited for, when it stays false."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, f"waited for {what}"
        await asyncio.sleep(POLL_SECONDS)
