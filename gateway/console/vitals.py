"""How the serving process is: what failed lately, how late its event loop was, its last proof."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from gateway.ledger.records import AuditReport
from gateway.state import Call
from gateway.times import unix_ms

MAX_ERRORS: Final = 20
SERVER_ERROR: Final = 500
TICK_SECONDS: Final = 0.5
LAG_WINDOW_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply that was the gateway's fault or a provider's."""

    at_ms: int
    request_id: str
    status: int
    code: str | None
    provider: str | None


@dataclass(frozen=True, slots=True)
class Proof:
    """A full audit that this process ran."""

    at_ms: int
    report: AuditReport


class Vitals:
    """Made when the ledger has been opened, and so been proven since its last checkpoint."""

    def __init__(self, tick_seconds: float = TICK_SECONDS) -> None:
        self.started_ms = unix_ms()
        self._started = time.monotonic()
        self._tick_seconds = tick_seconds
        self._failures: deque[Failure] = deque(maxlen=MAX_ERRORS)
        self._lags: deque[tuple[float, float]] = deque()
        self.last_proof: Proof | None = None
        self.is_proving = False

    @property
    def uptime_seconds(self) -> int:
        return int(time.monotonic() - self._started)

    @property
    def failures(self) -> list[Failure]:
        """The latest replies of 500 and above, the newest first."""
        return list(reversed(self._failures))

    @property
    def loop_lag_ms(self) -> float | None:
        """By how much the event loop was late at worst within the last minute."""
        worst = max((lag for _, lag in self._lags), default=None)
        return None if worst is None else round(worst * 1000, 1)

    def note_call(self, call: Call, status: int) -> None:
        """Of every request that has ended; nearly all of them are none of this one's business."""
        if status >= SERVER_ERROR:
            self._failures.append(
                Failure(unix_ms(), call.request_id, status, call.error_code, call.provider or None)
            )

    async def run(self) -> None:
        """Measure how late a short sleep ends, for as long as the gateway serves."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(self._tick_seconds)
            now = loop.time()
            self._lags.append((now, max(now - began - self._tick_seconds, 0.0)))
            while self._lags[0][0] < now - LAG_WINDOW_SECONDS:
                self._lags.popleft()
