"""Rates and periods in SQL are those of the API's limits and of the records."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Final

import orjson
import pytest

from gateway.api.limits import Bucket
from gateway.ledger.key_records import Period, find_span
from gateway.ledger.postgres.session import Session, connect
from gateway.times import DAY_MS
from tests.ledger.databases import ask

STEPS: Final = 120
LONGEST_PAUSE_MS: Final = 40_000
STARTED_MS: Final = 1_700_000_000_000
LIMITS: Final = (1, 3, 7, 60, 1000, 999_983, 20_000_000)
RATE: Final = "read_rate(1, 'k', ?::bigint[])"
REFUSAL: Final = f"SELECT find_rate_refusal('key', ?::bigint[], 0, {RATE}, ?, ?)"
CORRECT: Final = "SELECT correct_rates(ARRAY[json_populate_record(NULL::requests, ?)])"
USE: Final = f"SELECT write_rates(ARRAY[use_rate({RATE}, ?, ?)])"


class Rates:
    """The use of one key, as rounds of one request each see it."""

    def __init__(self, session: Session, name: str, limit: int) -> None:
        self._session = session
        self._terms = f"{{{limit},0,0}}" if name == "requests" else f"{{0,{limit},0}}"

    def wait_us(self, expected: int, at_us: int) -> int:
        """Return how long a request must wait, 0 if it fits."""
        refusal = ask(self._session, REFUSAL, (self._terms, self._terms, expected, at_us))
        return 0 if refusal is None else int(orjson.loads(str(refusal))[3])

    def admit(self, expected: int, at_us: int) -> None:
        self._session.execute(USE, (self._terms, expected, at_us))

    def correct(self, expected: int, more: int) -> None:
        kinds = ("cached_input", "cache_write", "cache_write_1h", "output")
        request = {
            "account_id": 1, "key_id": "k", "expected_tokens": expected,
            "input_tokens": expected + more, **{f"{kind}_tokens": 0 for kind in kinds},
        }  # fmt: skip
        self._session.execute(CORRECT, (orjson.dumps(request).decode(),))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", ["requests", "tokens"])
def test_buckets_are_those_of_one_process(ledger_url: str, name: str, limit: int) -> None:
    """Within a microsecond for each amount that was taken: those here are whole."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chooser = random.Random(seed)
    now_ms, admitted, taken = STARTED_MS, 0, 0
    bucket = Bucket(limit, now_ms / 1000)
    with closing(connect(ledger_url)) as session:
        rates = Rates(session, name, limit)
        for _ in range(STEPS):
            now_ms += chooser.choice((0, 1, 37, chooser.randrange(LONGEST_PAUSE_MS)))
            expected = chooser.randrange(1, max(2, limit * 3 // 2)) if name == "tokens" else 1
            wait_us = rates.wait_us(expected, now_ms * 1000)
            expected_us = bucket.wait_seconds(expected, now_ms / 1000) * 1e6
            assert wait_us == pytest.approx(expected_us, rel=0, abs=taken + 2)
            if wait_us:
                continue
            admitted += 1
            taken += 1
            rates.admit(expected, now_ms * 1000)
            bucket.take(expected)
            if name == "tokens" and chooser.random() < 0.5:
                more = chooser.randrange(-expected, limit)
                rates.correct(expected, more)
                bucket.take(more)
                taken += 1
    assert admitted > 0
    assert admitted < STEPS or limit > 7, "nothing was refused"


def test_any_amount_fits_where_there_is_no_rate(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        use = f"SELECT (use_rate({RATE}, ?, 7)).tokens_full_us"
        assert ask(session, use, ("{1,0,0}", 2**62)) == 7
        assert (
            ask(session, f"SELECT (use_rate({RATE}, ?, 7)).account_id", ("{0,0,0}", 2**62)) is None
        )


def test_a_request_that_did_not_count_is_not_corrected(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        rates = Rates(session, "tokens", 60)
        rates.admit(60, STARTED_MS * 1000)
        rates.correct(0, 30)
        assert rates.wait_us(60, STARTED_MS * 1000) == 60_000_000
        rates.correct(60, -30)
        assert rates.wait_us(60, STARTED_MS * 1000) == 30_000_000


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
