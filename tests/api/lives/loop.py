"""An event loop whose clock jumps to the next timer, and the log of one life."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

DELAYS: Final = (0.0, 0.0, 0.0, 0.02, 0.3, 1.7)
"""Pauses of providers, callers and commits, which a script draws from."""


HANG_SECONDS: Final = 10_000.0
"""No life takes so long; the ledger's writer has a timer that goes on and on."""


class Hang(AssertionError):
    """Nothing more will happen, so the life under test would wait for ever."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without I/O, whose time passes only while everybody waits."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_seconds = 0.0
        self._selector = self

    def time(self) -> float:
        return self._virtual_seconds

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None or self._virtual_seconds > HANG_SECONDS:
            raise Hang("nothing will ever happen")
        self._virtual_seconds += timeout
        return []

    def _process_events(self, event_list: list[object]) -> None:  # noqa: ARG002 - there are none
        return

    def _write_to_self(self) -> None:
        return


@dataclass(slots=True)
class Log:
    """The events of one life in order, and the promises that were broken."""

    lines: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        now = asyncio.get_running_loop().time()
        self.lines.append(f"{now:8.2f}  {line}")

    def check(self, promise: bool, text: str) -> None:
        if not promise:
            self.note(f"BROKEN: {text}")
            self.broken.append(text)
