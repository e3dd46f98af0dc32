"""Start background tasks that nobody awaits; log their errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

log = logging.getLogger("gateway.tasks")

_running: set[asyncio.Task[None]] = set()
"""Keeps tasks alive, as the event loop holds only weak references to them."""


def spawn(coroutine: Coroutine[object, None, None], *, name: str) -> asyncio.Task[None]:
    """Start a background task. If it raises, the error is logged."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_finish)
    return task


def _finish(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task %s failed", task.get_name(), exc_info=error)
