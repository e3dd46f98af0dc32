"""Tell how a long start goes: a large ledger takes many seconds to migrate, prove and read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from gateway.tasks import spawn

TELL_SECONDS: Final = 3.0
"""The pause between two lines: most starts take less, and say nothing."""


class Progress:
    """Calls `tell` every few seconds, until its end, with the step that the start is at."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.begin("opening the database")
        self._task = spawn(self._run(), name="progress")

    def begin(self, step: str) -> None:
        """Note the next step, on any thread."""
        self._step, self._began = step, time.monotonic()

    def end(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self._tell(f"{self._step}, for {time.monotonic() - self._began:.0f} s so far")
