"""A dropped month leaves balances, sums, and the calls of later months."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.base.times import DAY_MS, HOUR_MS, to_unix_ms
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.entries import EntryRuns
from gateway.extras.reports.records import CallFilter, UsageFilter
from gateway.extras.reports.standings import StandingBook
from gateway.extras.reports.usage import UsageBook
from gateway.ledger.records import NotFound
from gateway.ledger.sql.rows import read_receipt
from tests.extras.postgres.databases import ask
from tests.extras.postgres.rounds import write_requests
from tests.extras.postgres.test_months import BOOKS_MS
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement
from tests.ledger.sql.requests import make_item


def describe(books: PostgresBooks) -> tuple[object, ...]:
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
        before = describe(books)
        drop = "SELECT drop_months(to_timestamp(?), 2)"
        assert ask(books._session, drop, (BOOKS_MS // 1000,)) == 1
        assert describe(books) == before
        assert books.audit().problems == ()
        receipts = [read_receipt(books.connection, request_id=id_) for id_ in ids]
        assert [receipt is None for receipt in receipts] == [True, True, False, False]
        with pytest.raises(NotFound):
            books.receipts.read_detail(ids[0])
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
