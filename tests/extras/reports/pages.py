"""Reads each page that people see of a long history, and measures it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gateway.base.times import DAY_MS, HOUR_MS
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.entries import EntryFilter, EntryRuns
from gateway.extras.reports.ranks import RankBook
from gateway.extras.reports.records import CallFilter, UsageFilter
from gateway.extras.reports.standings import StandingBook
from gateway.extras.reports.usage import UsageBook
from gateway.ledger.records import EntryKind
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from tests.long.million import (
    ACCOUNT,
    END_MS,
    KEY,
    MODEL,
    RARE,
    Busy,
    Filled,
    Watch,
    audit,
    fill_previous,
    measure,
)


def choose(
    filled: Busy, days: int, *, key_id: str | None = None, model: str | None = None
) -> UsageFilter:
    """Return a filter for the last days, today included."""
    return UsageFilter(filled.account_id, filled.today - days + 1, filled.today, key_id, model)


def play_previous(path: Path) -> dict[str, float]:
    """Upgrade a database of the version before, audit it, and measure its pages."""
    filled, watch = fill_previous(path), Watch()
    with filled.open_books() as books:
        watch.tell(f"{filled.history.requests} requests are upgraded")
        audit(books, watch)
        return {page: measure(read) for page, read in make_pages(books, filled).items()}


def count_steps(books: SqliteBooks, filled: Filled) -> dict[str, int]:
    """Count thousands of SQLite's steps for each page, the same on any machine."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    counts = {}
    books.connection.set_progress_handler(count, 1000)
    for page, read in make_pages(books, filled).items():
        steps = 0
        read()
        counts[page] = steps
    books.connection.set_progress_handler(None, 0)
    return counts


_FILTERS: Final = {
    "": CallFilter(),
    ", one key": CallFilter(key_id=KEY),
    ", one model": CallFilter(model=MODEL),
    ", no such model": CallFilter(model="none"),
    ", its provider": CallFilter(provider="vendor"),
    ", a rare provider": CallFilter(provider=RARE),
    ", no such provider": CallFilter(provider="none"),
    ", complete": CallFilter(outcome="complete"),
    ", failed": CallFilter(outcome="failed"),
    ", a rare outcome": CallFilter(outcome="shutdown"),
    ", pending": CallFilter(outcome="pending"),
    ", status 200": CallFilter(status=200),
    ", status 502": CallFilter(status=502),
    ", a status there is not": CallFilter(status=418),
    ", some hours": CallFilter(since_ms=END_MS - 90 * HOUR_MS, until_ms=END_MS - 70 * HOUR_MS - 1),
    ", failures of a rare provider": CallFilter(provider=RARE, outcome="failed"),
}
"""The filters of the operators' list."""


def make_pages(books: Books, filled: Busy) -> dict[str, Callable[[], object]]:
    """The reads of each page, by its name."""
    account, today = filled.account_id, filled.today
    return {
        "overview": lambda: _read_overview(books, filled),
        "usage, 30 days": lambda: UsageBook(books).report(choose(filled, 30), "day"),
        "usage, 366 days": lambda: UsageBook(books).report(choose(filled, 366), "day"),
        "usage, 366 days by key": lambda: UsageBook(books).report(
            choose(filled, 366), "day", by_key=True
        ),
        "costs, 366 days by provider": lambda: UsageBook(books).sum_with_costs(
            "provider", since_ms=(today - 365) * DAY_MS, until_ms=None
        ),
        "usage, 31 days by hour": lambda: UsageBook(books).report(choose(filled, 31), "hour"),
        "usage, 31 days by hour, one key": lambda: UsageBook(books).report(
            choose(filled, 31, key_id=KEY), "hour"
        ),
        "usage, 31 days by hour, one model": lambda: UsageBook(books).report(
            choose(filled, 31, model=MODEL), "hour"
        ),
        "keys": lambda: UsageBook(books).sum_by_key(account, today - 29, today),
        "billing": lambda: _read_billing(books, None, account),
        "billing, codes": lambda: _read_billing(books, "code", account),
        "billing, charges": lambda: _read_billing(books, "charge", account),
        "activity": lambda: _read_calls(books, CallFilter(account)),
        "activity, one key": lambda: _read_calls(books, CallFilter(account, key_id=KEY)),
        "activity, one model": lambda: _read_calls(books, CallFilter(account, model=MODEL)),
        "activity, one day": lambda: _read_calls(
            books, CallFilter(account, since_ms=(today - 9) * DAY_MS, until_ms=(today - 8) * DAY_MS)
        ),
        "activity, nothing found": lambda: _read_calls(books, CallFilter(account, model="none")),
        **{
            f"all activity{name}": partial(_read_calls, books, chosen)
            for name, chosen in _FILTERS.items()
        },
        "accounts": lambda: StandingBook(books).read_standings([account], today=today),
        "accounts by spend": lambda: RankBook(books).rank("spent_30d", today=today),
    }


def _read_overview(books: Books, filled: Busy) -> None:
    with books.snapshot():
        books.accounts.read(ACCOUNT)
        UsageBook(books).read_overview(
            filled.account_id, first_day=filled.today - 29, soon_ms=7 * DAY_MS
        )
        CallBook(books).read_page(CallFilter(filled.account_id), None, 10)


def _read_billing(books: Books, kind: EntryKind | None, account_id: int) -> None:
    books.accounts.read(ACCOUNT)
    EntryRuns(books).count(account_id, kind)
    EntryRuns(books).read_run(EntryFilter(account_id, kind), None, 51)


def _read_calls(books: Books, chosen: CallFilter) -> None:
    CallBook(books).count(chosen)
    CallBook(books).read_page(chosen, None, 51)
