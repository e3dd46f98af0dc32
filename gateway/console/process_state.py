"""The state of the serving process: recent failures, event loop lag, the last audit."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from gateway.api import Call
from gateway.ledger import AuditReport
from gateway.tasks import measure_loop_lag
from gateway.times import unix_ms

MAX_ERRORS: Final = 20
"""The latest failures shown on the page Health: a screen of them."""
SERVER_ERROR: Final = 500
"""The first status that is counted as a failure of ours or of a provider."""
TICK_SECONDS: Final = 0.5
"""How often the event loop's lag is measured. The measuring itself must cost nothing."""
LAG_WINDOW_SECONDS: Final = 60.0
"""The page Health shows the worst lag of this time: long enough to be seen by who looks."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply of status 500 or above."""

    at_ms: int
    request_id: str
    status: int
    code: str | None
    provider: str | None


@dataclass(frozen=True, slots=True)
class FinishedAudit:
    """A full audit that this process ran to its end."""

    at_ms: int
    report: AuditReport


class ProcessState:
    """Counters of the process since its start.

    It is created after the ledger was opened, which audits the entries since the last checkpoint.
    """

    def __init__(self, tick_seconds: float = TICK_SECONDS) -> None:
        self.started_ms = unix_ms()
        self._started = time.monotonic()
        self._tick_seconds = tick_seconds
        self._failures: deque[Failure] = deque(maxlen=MAX_ERRORS)
        self._lags: deque[tuple[float, float]] = deque()
        self.last_audit: FinishedAudit | None = None
        self.is_auditing = False

    @property
    def uptime_seconds(self) -> int:
        return int(time.monotonic() - self._started)

    @property
    def failures(self) -> list[Failure]:
        """The latest replies of status 500 and above, the newest first."""
        return list(reversed(self._failures))

    @property
    def loop_lag_ms(self) -> float | None:
        """The longest delay of the event loop in the last minute; None before the first sample."""
        worst = max((lag for _, lag in self._lags), default=None)
        return None if worst is None else round(worst * 1000, 1)

    def note_call(self, call: Call, status: int) -> None:
        """Record a request that ended, if it failed with 500 or above."""
        if status >= SERVER_ERROR:
            self._failures.append(
                Failure(unix_ms(), call.request_id, status, call.error_code, call.provider or None)
            )

    async def measure_loop_lag(self) -> None:
        """Measure how late the event loop is, until cancelled."""
        await measure_loop_lag(self._note_lag, self._tick_seconds)

    def _note_lag(self, seconds: float) -> None:
        now = time.monotonic()
        self._lags.append((now, seconds))
        while self._lags[0][0] < now - LAG_WINDOW_SECONDS:
            self._lags.popleft()
