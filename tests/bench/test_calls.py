"""The gateway makes no more function calls per request and per event than it did."""

from __future__ import annotations

from typing import Final

import pytest

from tests.bench import calls
from tests.bench.wire import Mode

CEILINGS: Final[dict[Mode, float]] = {"json": 720, "messages": 735, "paced": 58, "responses": 58}
"""Calls on the event loop per request, or per event of a paced stream: the count when this was
written, on asyncio's own loop, and a twentieth of it. Lower a ceiling when its count has fallen.
"""
MOST_TURNS: Final = 8.5
"""Turns of the loop per JSON request: one for each wait, and those of timers, of which other load makes
more."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "units"),
    [("json", 1), ("messages", 1), ("paced", calls.EVENTS), ("responses", calls.EVENTS)],
)
def test_a_request_takes_no_more_calls_than_before(mode: Mode, units: int) -> None:
    counts = (2, 8) if units > 1 else (100, 500)
    total, rows = calls.subtract(mode, counts, units)
    # Other programs' load makes a count higher.
    if total > CEILINGS[mode] or dict(rows)[calls.TURN] > MOST_TURNS:
        total, rows = calls.subtract(mode, counts, units)
    assert total <= CEILINGS[mode], rows[:12]
    assert dict(rows)[calls.TURN] <= MOST_TURNS
