"""Partitions: a month by UTC, whatever the session's zone; and months that are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import pytest
from psycopg import errors

from gateway.ids import find_first_id
from gateway.ledger.call_records import CallFilter, UsageFilter
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.records import NotFound
from gateway.ledger.sql.rows import read_receipt
from gateway.times import DAY_MS, HOUR_MS, to_unix_ms
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement
from tests.ledger.databases import ask, wait_for_lock
from tests.ledger.postgres.rounds import write_requests
from tests.ledger.sql.requests import make_item

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
    session.execute(END)
    dropped = "SELECT drop_months('2032-02-01 00:00+00', ?)"
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


def describe(books: PostgresBooks) -> tuple[object, ...]:
    """Return what no drop may change: balances, entries, sums, and what is shown of them."""
    today = BOOKS_MS // DAY_MS
    return (
        books.accounts.read_all(),
        books.keys.read_all(),
        books.entries.read_latest("a", 100),
        books.entries.count(1),
        books.accounts.read_standing(1, today=today),
        books.usage.report(UsageFilter(1, today - 100, today), "day", by_key=True),
        books.usage.report(UsageFilter(1, today - 100, today), "hour"),
        books.usage.sum_by("model", account=None, since_ms=None, until_ms=None),
        books.usage.sum_costs("day", account=None, since_ms=None, until_ms=None),
        books.usage.read_overview(1, first_day=today - 100, soon_ms=1),
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
        before = describe(books)
        drop = "SELECT drop_months(to_timestamp(?), 2)"
        assert ask(books._session, drop, (BOOKS_MS // 1000,)) == 1
        assert describe(books) == before
        assert books.audit().problems == ()
        receipts = [read_receipt(books.connection, request_id=id_) for id_ in ids]
        assert [receipt is None for receipt in receipts] == [True, True, False, False]
        with pytest.raises(NotFound):
            books.calls.read_detail(ids[0])
        for chosen in (
            CallFilter(),
            CallFilter(1),
            CallFilter(1, key_id=key),
            CallFilter(model="x"),
        ):
            found = [call.request_id for call in books.calls.read_page(chosen, None, 10)]
            assert found == ([] if chosen.model else [ids[3], ids[2]])
        late = "UPDATE hourly SET requests = requests + 1 WHERE hour = ?"
        books.connection.execute(late, ((BOOKS_MS - DAY_MS) // HOUR_MS,))
        assert any("the hour's sums differ" in one for one in books.audit().problems)
