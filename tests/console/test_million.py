"""Pages stay quick with a long history: their queries at 200,000 requests of one account.

`python -m tests.long million` does the same with a million, and measures the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.long.million import Filled, History, count_steps, fill

pytestmark = pytest.mark.slow

REQUESTS: Final = 200_000
MAX_STEPS: Final = 600
"""Limit in thousands of SQLite's steps; a look at every request takes more."""
MAX_STEPS_OF_HOURS: Final = 2000
"""Limit for a page made from 50,000 sums."""
HOURS: Final = "usage, 31 days by hour"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    path = tmp_path_factory.mktemp("million") / "gateway.db"
    yield fill(path, History(requests=REQUESTS))
    path.unlink()  # pytest keeps folders, and this one is large


def test_the_books_are_in_order(filled: Filled) -> None:
    """Check the books first: the figures must be of a database that a gateway can write."""
    with filled.open_books() as books:
        report = books.audit()
    assert report.problems == ()
    assert report.entries > REQUESTS * 0.9


def test_every_page_is_read_in_few_steps(filled: Filled) -> None:
    with filled.open_books() as books:
        counts = count_steps(books, filled)
    print("\n".join(f"{count:6} {page}" for page, count in counts.items()))
    assert counts.pop(HOURS) <= MAX_STEPS_OF_HOURS
    assert {page: count for page, count in counts.items() if count > MAX_STEPS} == {}


def test_every_grouping_is_the_balance_sheet(filled: Filled) -> None:
    """The sums of the pages equal the charges, to the nano-unit."""
    with filled.open_books() as books:
        charged = books.connection.execute(
            "SELECT -sum(amount_nano) FROM entries WHERE kind = 'charge'"
        ).fetchone()[0]
        everything = filled.choose(filled.history.days + 2)
        daily = books.usage.report(everything, "day", by_key=True)
        hourly = books.usage.report(everything, "hour")
    assert sum(point.usage.cost_nano for point in daily.points) == charged
    assert sum(point.usage.cost_nano for point in hourly.points) == charged
    assert sum(usage.cost_nano for _, usage in daily.keys) == charged
