"""The periods of `periods.sql` are those of `gateway.ledger.key_records`."""

from __future__ import annotations

import random
from contextlib import closing

import orjson
import pytest

from gateway.ledger.key_records import Period, find_span
from gateway.ledger.postgres.session import connect
from gateway.times import DAY_MS

DAYS = 2_000
LAST_DAY = 2_900_000
"""In the year 9909; Python's calendar ends with 9999."""
BORDERS = (0, 1, 30, 31, 58, 59, 364, 365, 11_015, 11_016, 19_722, 19_723)
"""The ends of months, of a year, and 2000-02-28 and -29 among them."""


@pytest.mark.parametrize("period", ["day", "week", "month"])
def test_each_day_is_in_the_same_period(ledger_url: str, period: Period) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chooser = random.Random(seed)
    days = [*BORDERS, *(chooser.randrange(LAST_DAY) for _ in range(DAYS))]
    with closing(connect(ledger_url)) as session:
        rows = session.execute(
            "SELECT first, end_period(:period, first) FROM json_each(:days),"
            " first_day(:period, CAST(value AS bigint)) AS first",
            {"period": period, "days": orjson.dumps(days).decode()},
        ).fetchall()
    spans = [find_span(period, day * DAY_MS) for day in days]
    assert rows == [(span.first_day, span.ends_ms) for span in spans]
