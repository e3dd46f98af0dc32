"""A charged request writes no more pages than it did."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.bench.pages import count_pages

MOST_PAGES: Final = 6.0
"""Frames in the write-ahead log per quick JSON request on one connection: 5.5 when this was written,
and what a fold more or less makes of them. Lower it when the count has fallen."""


@pytest.mark.slow
async def test_a_charge_writes_few_pages(tmp_path: Path) -> None:
    pages = await count_pages(tmp_path, 400)
    assert sum(pages.values()) <= MOST_PAGES, pages
