"""Background tasks, prompt waits, and the event loop's lag."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context

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


class PromptFuture(asyncio.Future[None]):
    """A future whose task can continue in the same call that ends the wait, not in a later turn.

    `end` does this. After `set_result`, `go_on` has to be called. Other ends, such as a cancellation,
    resume the task in a later turn, as with any future. So does every task that waits besides the first.
    """

    _step: Callable[[PromptFuture], object] | None = None
    _context: Context | None = None

    def add_done_callback(
        self, fn: Callable[[PromptFuture], object], /, *, context: Context | None = None
    ) -> None:
        """Keep the step of the first task that waits. Only tasks pass a context."""
        if self._step is None and context is not None:
            self._step, self._context = fn, context
        else:
            super().add_done_callback(fn, context=context)

    def end(self) -> None:
        """End the wait; the task takes its next step in this call, unless another task is running."""
        if not self.done():
            self.set_result(None)
            self.go_on()

    def end_later(self) -> None:
        """End the wait; the task takes its next step in a later turn."""
        if not self.done():
            self.set_result(None)
            self._tell()

    def go_on(self) -> None:
        """Let the task take its next step if `set_result` ended the wait and it has not done so yet."""
        step, self._step = self._step, None
        if step is None or self._context is None:
            return
        try:
            self._context.run(step, self)
        except RuntimeError:  # another task is running, and tasks cannot be nested
            super().add_done_callback(step, context=self._context)

    def set_exception(self, exception: type[BaseException] | BaseException, /) -> None:
        super().set_exception(exception)
        self._tell()

    def cancel(self, msg: object = None) -> bool:
        is_ended = super().cancel(msg)
        self._tell()
        return is_ended

    def _tell(self) -> None:
        """Let the task take its next step in a later turn."""
        step, self._step = self._step, None
        if step is not None:
            super().add_done_callback(step, context=self._context)


def _finish(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task %s failed", task.get_name(), exc_info=error)
