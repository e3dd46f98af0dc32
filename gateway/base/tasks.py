"""Background tasks, and the event loop's lag."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

log = logging.getLogger("gateway.tasks")

_running: set[asyncio.Task[None]] = set()
"""Keeps tasks alive, as the event loop holds only weak references to them."""


def spawn(coroutine: Coroutine[object, None, None], *, name: str) -> asyncio.Task[None]:
    """Start a background task. If it raises, the error is logged."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_finish)
    return task


async def measure_loop_lag(note: Callable[[float], None], tick_seconds: float) -> None:
    """Until cancelled, call `note` with the seconds by which a sleep of one tick ended late."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        await asyncio.sleep(tick_seconds)
        note(max(loop.time() - began - tick_seconds, 0.0))


def _finish(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task %s failed", task.get_name(), exc_info=error)
