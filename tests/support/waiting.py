"""Wait for conditions that have no event: a log line, a row of another process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

POLL_SECONDS: Final = 0.005


async def until(condition: Callable[[], object], what: str, *, seconds: float = 30.0) -> None:
    """Wait until the condition is true; fail with a description if it never is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        began = loop.time()
        if condition():
            return
        assert loop.time() < deadline, f"waited for {what}"
        # To open the books takes longer than a poll: to look takes a quarter of the time at most.
        await asyncio.sleep(max(POLL_SECONDS, 3 * (loop.time() - began)))
