"""Rates, periods and months in SQL are those of the API's limits, of the records and of UTC; a dropped month leaves sums."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

import orjson
import pytest
from psycopg import errors

from gateway.api.limits import Bucket
from gateway.base.ids import find_first_id
from gateway.base.times import DAY_MS, HOUR_MS, to_unix_ms
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.session import Session, connect
from gateway.extras.receipts.book import ReceiptBook
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.entries import EntryRuns
from gateway.extras.reports.records import CallFilter, UsageFilter
from gateway.extras.reports.standings import StandingBook
from gateway.extras.reports.usage import UsageBook
from gateway.ledger.budget_records import Period, find_span
from gateway.ledger.records import NotFound
from gateway.ledger.sql.rows import read_receipt
from tests.extras.postgres.databases import ask, wait_for_lock
from tests.extras.postgres.rounds import write_requests
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement
from tests.ledger.sql.requests import make_item

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
            bucket.level -= expected
            if name == "tokens" and chooser.random() < 0.5:
                more = chooser.randrange(-expected, limit)
                rates.correct(expected, more)
                bucket.level -= more
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


NEW_YEAR_MS = to_unix_ms(datetime(2032, 1, 1, tzinfo=UTC))
BOOKS_MS = NOW_MS + 60 * DAY_MS
"""In January; NOW_MS is in November."""
NEW_YEARS_EVE = "2031-12-31 23:30+00"
ROW = """
    INSERT INTO requests (
        id, account_id, key_id, model, provider, stream, hold_nano, price_id, state, outcome,
        started_ms
    ) VALUES (?, 1, 'k', 'm', 'p', 0, 0, 0, 'pending', 'pending', ?)
    RETURNING tableoid::regclass::text
"""
END = "UPDATE requests SET state = 'voided', outcome = 'interrupted', ended_ms = started_ms"
"""For a pending request keeps its month."""
ENTRY = """
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, created_ms)
    VALUES (1, 'credit', 1, 1, ?) RETURNING tableoid::regclass::text
"""
CHARGE = (
    "INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id, created_ms)"
    " VALUES (1, 'charge', 0, 0, 'r', ?)"
)
MAKE = "SELECT make_months(to_timestamp(?), 1)"
MADE = "SELECT to_regclass('entries_' || ?) IS NOT NULL"
MONTHS = "SELECT array_agg(relid::regclass::text ORDER BY 1) FROM pg_partition_tree(?) WHERE isleaf"


@pytest.fixture(params=["UTC", "Pacific/Auckland", "America/Los_Angeles"])
def session(request: pytest.FixtureRequest, ledger_url: str) -> Iterator[Session]:
    with closing(connect(ledger_url)) as session:
        session.run(f"SET TimeZone = '{request.param}'")
        yield session


def find_month(session: Session, at_ms: int) -> tuple[object, object]:
    """Return where a request and an entry of that moment are."""
    return (
        ask(session, ROW, (find_first_id(at_ms) + "0" * 16, at_ms)),
        ask(session, ENTRY, (at_ms,)),
    )


def test_a_month_has_its_requests_and_entries_to_the_millisecond(session: Session) -> None:
    assert ask(session, "SELECT make_months(?, 1)", (NEW_YEARS_EVE,)) == 2
    for at_ms, month in (
        (NEW_YEAR_MS - 31 * DAY_MS - 1, "other"),
        (NEW_YEAR_MS - 31 * DAY_MS, "2031_12"),
        (NEW_YEAR_MS - 1, "2031_12"),
        (NEW_YEAR_MS, "2032_01"),
        (NEW_YEAR_MS + 31 * DAY_MS - 1, "2032_01"),
        (NEW_YEAR_MS + 31 * DAY_MS, "other"),
    ):
        assert find_month(session, at_ms) == (f"requests_{month}", f"entries_{month}")


def test_months_are_made_once(session: Session) -> None:
    assert ask(session, "SELECT make_months(?, 0)", (NEW_YEARS_EVE,)) == 1
    assert ask(session, "SELECT make_months(?, 2)", (NEW_YEARS_EVE,)) == 2
    assert ask(session, "SELECT make_months(?, 2)", (NEW_YEARS_EVE,)) == 0


def test_a_new_ledger_has_this_month_and_the_next_two(session: Session) -> None:
    assert ask(session, "SELECT make_months(now(), 2)") == 0


def test_requests_of_so_many_months_are_kept(session: Session) -> None:
    """This month is one of them. Entries stay, and so do requests of no month."""
    session.execute("SELECT make_months(?, 3)", (NEW_YEARS_EVE,))
    ask(session, "SELECT drop_months('2032-02-01 00:00+00', 3)")  # those since it was made
    entries = ask(session, MONTHS, ("entries",))
    for at_ms in (1, NEW_YEAR_MS - 1, NEW_YEAR_MS):
        find_month(session, at_ms)
    dropped = "SELECT drop_months('2032-02-01 00:00+00', ?)"
    assert ask(session, dropped, (2,)) == 0, "a pending request keeps its month"
    session.execute(END)
    assert ask(session, dropped, (3,)) == 0
    assert ask(session, dropped, (2,)) == 1
    assert ask(session, dropped, (2,)) == 0
    assert session.execute("SELECT started_ms FROM requests ORDER BY 1").fetchall() == [
        (1,),
        (NEW_YEAR_MS,),
    ]
    assert ask(session, "SELECT count(*) FROM entries") == 3
    assert ask(session, MONTHS, ("entries",)) == entries
    kept_from_ms = ask(session, "SELECT kept_from_ms FROM retention")
    assert kept_from_ms == NEW_YEAR_MS + DAY_MS, (
        "those over midnight count in hours of the next day"
    )


def test_nodes_that_make_a_month_at_once_make_one(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as first, closing(connect(ledger_url)) as second:
        first.run("BEGIN")
        first.execute("SELECT make_months(?, 0)", (NEW_YEARS_EVE,))
        with ThreadPoolExecutor(1) as thread:
            made = thread.submit(ask, second, "SELECT make_months(?, 0)", (NEW_YEARS_EVE,))
            wait_for_lock(first, made)
            first.run("COMMIT")
            assert made.result(10) == 0


def test_rows_that_came_before_their_month_stay_and_the_next_month_is_made(
    session: Session,
) -> None:
    """No gateway has served for months, and the operator posts a credit."""
    session.execute(CHARGE, (NOW_MS,))
    assert ask(session, MAKE, (NOW_MS // 1000,)) == 1
    assert session.execute(MADE, ("2023_11",)).fetchone() == (False,)
    assert session.execute(MADE, ("2023_12",)).fetchone() == (True,)


@pytest.mark.parametrize("has_month", [True, False])
def test_a_request_is_charged_once_in_each_month(session: Session, *, has_month: bool) -> None:
    if has_month:
        ask(session, MAKE, (NOW_MS // 1000,))
    session.execute(CHARGE, (NOW_MS,))
    with pytest.raises(errors.UniqueViolation):
        session.execute(CHARGE, (NOW_MS + 1,))


def describe_kept(books: PostgresBooks) -> tuple[object, ...]:
    """Return what no drop may change: balances, entries, sums, and what is shown of them."""
    today = BOOKS_MS // DAY_MS
    return (
        books.accounts.read_all(),
        books.keys.read_all(),
        books.entries.read_latest("a", 100),
        EntryRuns(books).count(1),
        StandingBook(books).read_standing(1, today=today),
        UsageBook(books).report(UsageFilter(1, today - 100, today), "day", by_key=True),
        UsageBook(books).report(UsageFilter(1, today - 100, today), "hour"),
        UsageBook(books).sum_by("model", account=None, since_ms=None, until_ms=None),
        UsageBook(books).sum_costs("day", account=None, since_ms=None, until_ms=None),
        UsageBook(books).sum_by("day", account="a", since_ms=NOW_MS - DAY_MS, until_ms=BOOKS_MS),
        UsageBook(books).read_overview(1, first_day=today - 100, soon_ms=1),
    )


def test_what_a_dropped_month_leaves_is_sound(ledger_url: str) -> None:
    """Requests of November that ended in December, too: they are dropped with their month."""
    december_ms = to_unix_ms(datetime(2023, 12, 1, tzinfo=UTC))
    times = (NOW_MS, december_ms - 5, december_ms, BOOKS_MS - DAY_MS)
    with PostgresBooks(ledger_url, clock=lambda: BOOKS_MS) as books:
        books.connection.execute("SELECT make_months(to_timestamp(?), 2)", (NOW_MS // 1000,))
        books.accounts.create("a", credit_nano=10**6, operator=False)
        key = key_id_of(create_key(books, "a"))
        items = [
            make_item(1, key, at, settlement(70 + n, ended_ms=at + 10, provider_cost_nano=5))
            for n, at in enumerate(times)
        ]
        for item, at_ms in zip(items, times, strict=True):
            write_requests(books._session, [item], at_ms + 10)
        ids = [item.hold.admission.request_id for item in items]
        books.entries.post("a", "correction", 3, note="n", request_id=ids[0])
        assert books.audit().problems == ()
        before = describe_kept(books)
        drop = "SELECT drop_months(to_timestamp(?), 2)"
        assert ask(books._session, drop, (BOOKS_MS // 1000,)) == 1
        assert describe_kept(books) == before
        assert books.audit().problems == ()
        receipts = [read_receipt(books.connection, request_id=id_) for id_ in ids]
        assert [receipt is None for receipt in receipts] == [True, True, False, False]
        with pytest.raises(NotFound):
            ReceiptBook(books).find(ids[0])
        for chosen in (
            CallFilter(),
            CallFilter(1),
            CallFilter(1, key_id=key),
            CallFilter(model="x"),
        ):
            found = [call.request_id for call in CallBook(books).read_page(chosen, None, 10)]
            assert found == ([] if chosen.model else [ids[3], ids[2]])
        late = "UPDATE hourly SET requests = requests + 1 WHERE hour = ?"
        books.connection.execute(late, ((BOOKS_MS - DAY_MS) // HOUR_MS,))
        assert any("the hour's sums differ" in one for one in books.audit().problems)
