"""The state of the serving process: its latest failures, and the lag of its event loop."""

from __future__ import annotations

import asyncio
import time

from gateway.console.state import MAX_ERRORS, ProcessState
from gateway.tasks import spawn
from tests.support.records import make_call

# ---- process state -------------------------------------------------------------------------------


def note(process: ProcessState, status: int, number: int = 0) -> None:
    process.note_call(make_call(request_id=f"req_{number}"), status)


def test_vitals_keep_the_latest_failures() -> None:
    process = ProcessState()
    for status in (200, 204, 304, 400, 404, 429, 499):
        note(process, status)
    assert process.failures == []
    for number in range(MAX_ERRORS + 5):
        note(process, 500, number)
    ids = [one.request_id for one in process.failures]
    assert ids == [f"req_{number}" for number in range(MAX_ERRORS + 4, 4, -1)]


async def test_vitals_see_a_loop_that_was_blocked() -> None:
    process = ProcessState(tick_seconds=0.01)
    assert process.loop_lag_ms is None
    running = spawn(process.measure_loop_lag(), name="lag")
    await asyncio.sleep(0.005)
    time.sleep(0.1)  # noqa: ASYNC251 - the fault that is looked for
    async with asyncio.timeout(60):
        while process.loop_lag_ms is None:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
    running.cancel()
    assert process.loop_lag_ms >= 80
