"""Pages stay quick however long the history is: their queries at 200,000 calls of one account.

`python tests/long.py million` plays a million.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from million_kit import Filled, History, fill, measure_pages

REQUESTS: Final = 200_000
MAX_MS: Final = 50
MAX_MS_OF_HOURS: Final = 100
"""Of a page made from 50,000 sums: half of that on a machine that does nothing else."""
HOURS: Final = "usage, 31 days by hour"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    path = tmp_path_factory.mktemp("million") / "gateway.db"
    yield fill(path, History(requests=REQUESTS))
    path.unlink()  # pytest keeps folders, and this one is large


def test_the_books_are_in_order(filled: Filled) -> None:
    """Else the figures below would be of a database that no gateway writes."""
    with filled.open_books() as books:
        report = books.audit()
    assert report.problems == ()
    assert report.entries > REQUESTS * 0.9


def test_every_page_is_read_quickly(filled: Filled) -> None:
    with filled.open_books() as books:
        figures = measure_pages(books, filled)
    print("\n".join(f"{ms:6.1f} ms  {page}" for page, ms in figures.items()))
    assert figures.pop(HOURS) <= MAX_MS_OF_HOURS
    assert {page: ms for page, ms in figures.items() if ms > MAX_MS} == {}


def test_every_grouping_is_the_balance_sheet(filled: Filled) -> None:
    """What the pages sum up is what was charged, to the nano-unit."""
    with filled.open_books() as books:
        charged = books._connection.execute(
            "SELECT -sum(amount_nano) FROM entries WHERE kind = 'charge'"
        ).fetchone()[0]
        everything = filled.choose(filled.history.days + 2)
        daily = books.usage_report(everything, "day", by_key=True)
        hourly = books.usage_report(everything, "hour")
    assert sum(point.usage.cost_nano for point in daily.points) == charged
    assert sum(point.usage.cost_nano for point in hourly.points) == charged
    assert sum(usage.cost_nano for _, usage in daily.keys) == charged
