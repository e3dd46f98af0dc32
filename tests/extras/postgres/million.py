"""Write a long history into PostgreSQL: a million requests of many accounts, in a minute.

    filled = fill(url, PostgresHistory())
    with filled.open_books() as books:                  # whose clock stands at the end of it
        figures = measure_pages(books, filled)          # milliseconds of each page

It is like that of `tests.long.million`: half of the requests are of one account, the others of all
others. The audit passes, and every fill is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gateway.base.times import DAY_MS
from gateway.extras.console.key_pages import KeyPages
from gateway.extras.observations.book import ObservationBook
from gateway.extras.operations.events import EventFilter, EventLog
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.schema import open_session
from gateway.extras.receipts.book import ReceiptBook
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.entries import EntryFilter, EntryRuns
from gateway.extras.reports.ranks import AccountOrder, RankBook
from gateway.extras.reports.records import CallFilter, UsageGroup
from gateway.extras.reports.standings import StandingBook
from gateway.extras.reports.usage import UsageBook
from gateway.ledger.opening import open_ledger
from gateway.ledger.records import DatabaseUrl
from gateway.ledger.sql.books import Books
from tests.extras.postgres.cluster import find_server, run_cluster
from tests.extras.reports.pages import make_pages
from tests.long.million import ACCOUNT, Busy, History, Watch, audit, list_statements, measure

HERE: Final = Path(__file__).parent
_ORDERS: Final[tuple[AccountOrder, ...]] = ("name", "balance", "held", "spent_today", "spent_7d")
_GROUPS: Final[tuple[UsageGroup, ...]] = ("day", "model", "key", "account")


@dataclass(frozen=True, slots=True)
class PostgresHistory(History):
    days: int = 150
    accounts: int = 2_000
    events: int = 20_000
    failures: int = 10_000


@dataclass(frozen=True, slots=True)
class FilledDatabase(Busy):
    history: PostgresHistory
    url: str

    def open_books(self) -> PostgresBooks:
        return PostgresBooks(self.url, clock=lambda: self.history.end_ms)


def fill(url: str, history: PostgresHistory | None = None) -> FilledDatabase:
    """Fill a database without a ledger."""
    history = history or PostgresHistory()
    with closing(open_session(url, create=True)) as session:
        session.run("BEGIN; SET LOCAL work_mem = '256MB'; SET LOCAL synchronous_commit = off")
        for sql in (*list_statements("million", folder=HERE), *list_statements("sums")):
            session.execute(sql, history.values | {"account": ACCOUNT})
        session.run("COMMIT")
        session.run("ANALYZE")
    return FilledDatabase(history, 1, url)


async def play_million(history: PostgresHistory | None = None) -> dict[str, float]:
    """Fill a server of its own, audit it, start a gateway's ledger, and measure the pages."""
    programs = find_server()
    assert programs is not None, "no PostgreSQL server: apt-get install postgresql"
    with run_cluster(programs) as cluster:
        watch = Watch()
        filled = fill(cluster.make_database(), history)
        watch.tell(f"{filled.history.requests} requests are filled")
        for what in ("the first start, which proves all entries", "the next start"):
            async with open_ledger(DatabaseUrl(filled.url)):
                watch.tell(what)
        with filled.open_books() as books:
            audit(books, watch)
            return measure_pages(books, filled)


def measure_pages(books: PostgresBooks, filled: FilledDatabase) -> dict[str, float]:
    """Measure the CPU milliseconds of a page, the server's and the books': the median of five.

    The server is on this machine, and one process of it does all work of a page.
    """
    books.connection.execute("SET max_parallel_workers_per_gather = 0")
    server = Path(f"/proc/{books.read_number('SELECT pg_backend_pid()')}/schedstat")
    pages = make_all_pages(books, filled)

    def read_cpu_ns() -> int:
        return time.thread_time_ns() + int(server.read_text(encoding="ascii").split()[0])

    return {page: measure(read, read_cpu_ns) for page, read in pages.items()}


def make_all_pages(books: Books, filled: FilledDatabase) -> dict[str, Callable[[], object]]:
    """The reads of each page, by its name; many accounts make those of operators long."""
    account, today = filled.account_id, filled.today
    page, month_ms = list(range(1, min(filled.history.accounts, 50) + 1)), (today - 29) * DAY_MS
    return {
        **make_pages(books, filled),
        "accounts, a page": lambda: StandingBook(books).read_standings(page, today=today),
        **{f"accounts by {by}": partial(RankBook(books).rank, by, today=today) for by in _ORDERS},
        "account names": lambda: books.accounts.find_names("account-1"),
        "latest entries": lambda: books.entries.read_latest(ACCOUNT, 20),
        "entries, an early page": lambda: EntryRuns(books).read_run(EntryFilter(account), 9000, 51),
        **{f"usage of all by {by}, 30 days": partial(_sum, books, by, month_ms) for by in _GROUPS},
        "usage of one, all time": lambda: UsageBook(books).sum_by(
            "day", account=ACCOUNT, since_ms=None, until_ms=None
        ),
        "pending": books.measure_pending,
        "one call": partial(_read_one, books, account),
        "keys, a page": lambda: KeyPages(books).read_page(
            account, live_at_ms=None, after=None, limit=51
        ),
        "events": partial(_search_events, books, None),
        "events, searched": partial(_search_events, books, "account-77"),
        "refusals": lambda: ObservationBook(books).read_refusals(None, month_ms),
        "refusals of one": lambda: ObservationBook(books).read_refusals(account, month_ms),
        "providers": ObservationBook(books).read_upstream,
    }


def _sum(books: Books, by: UsageGroup, since_ms: int) -> None:
    """Read what the command `usage` shows of all accounts."""
    UsageBook(books).sum_by(by, account=None, since_ms=since_ms, until_ms=None)
    UsageBook(books).sum_costs(by, account=None, since_ms=since_ms, until_ms=None)


def _read_one(books: Books, account_id: int) -> None:
    (call,) = CallBook(books).read_page(CallFilter(account_id), None, 1)
    ReceiptBook(books).find(call.request_id)


def _search_events(books: Books, part: str | None) -> None:
    chosen = EventFilter(part)
    EventLog(books).count(chosen)
    EventLog(books).read_page(chosen, None, 51)
