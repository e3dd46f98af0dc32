"""A charged request writes no more pages, and makes no more system calls, than it did."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.bench import syscalls
from tests.bench.pages import count_pages

MOST_PAGES: Final = 5.0
"""Frames in the write-ahead log per quick JSON request on one connection: 4.6 when this was written,
and what a fold more or less makes of them. Lower it when the count has fallen."""


@pytest.mark.slow
async def test_a_charge_writes_few_pages(tmp_path: Path) -> None:
    pages = await count_pages(tmp_path, 400)
    assert sum(pages.values()) <= MOST_PAGES, pages


MOST_CALLS: Final = 38
"""System calls per JSON request on one connection, of all threads but `futex`: 32.6 to 35.6 on asyncio's loop
when this was written, seven of them a turn of the loop each."""
WAITS: Final = "futex"
"""A thread that waits for another one. How often depends on the machine: 4.6 per request where it is busy,
9.7 where it is idle."""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(not syscalls.can_trace(), reason="strace is not installed, or not allowed")
def test_a_request_makes_few_system_calls() -> None:
    counts = syscalls.measure()
    if _without_waits(counts) > MOST_CALLS:
        counts = syscalls.measure()
    assert _without_waits(counts) <= MOST_CALLS, counts


def _without_waits(counts: dict[str, float]) -> float:
    return sum(counts.values()) - counts.get(WAITS, 0)
