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


MOST_CALLS: Final = 43
"""System calls per JSON request on one connection, of all threads: 39 on asyncio's loop when this was written,
seven of them a turn of the loop each. Those that hand the GIL over and wait for the loop come more often beside other load."""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(not syscalls.can_trace(), reason="strace is not installed, or not allowed")
def test_a_request_makes_few_system_calls() -> None:
    counts = syscalls.measure()
    if sum(counts.values()) > MOST_CALLS:
        counts = syscalls.measure()
    assert sum(counts.values()) <= MOST_CALLS, counts
