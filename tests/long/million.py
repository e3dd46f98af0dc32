"""Write a long history in seconds: a million requests of one account, like the gateway would.

    filled = fill(tmp_path / "gateway.db")              # a million requests of 60 days
    with filled.open_books() as books:                  # whose clock stands at the end of it
        counts = count_steps(books, filled)             # of `tests.extras.reports.pages`

A few statements write all of it, and the audit passes: requests, charges, some codes, credits and
corrections, the sums by hour and day, and the balances of the account and its keys. Everything
that differs between requests comes from their number, so every fill is the same.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gateway.base.money import MILLION, Price
from gateway.base.prices import AppliedPrice
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.folds import (
    FILE_ENTRIES,
    NOTE_FOLDED,
    SUM_UP_DAYS,
    file_all,
    naming_charges,
)
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.versions import VERSION
from tests import ROOT

HERE: Final = Path(__file__).parent
ACCOUNT: Final = "busy"
END_MS: Final = 20_600 * DAY_MS + 13 * HOUR_MS
"""The end of the history, in the middle of a day: 2026-05-27T13:00Z."""
CREDIT_NANO: Final = 10**15
KEY: Final = "key_000000000003"
MODEL: Final = "vendor/model-03"
RARE: Final = "fallback"
MOVES: Final = 60
"""The number of credits, codes and corrections."""
PRICE: Final = AppliedPrice(
    Price(
        input=3000 * MILLION,
        output=15_000 * MILLION,
        cached_input=300 * MILLION,
        cache_write=3750 * MILLION,
    )
)


@dataclass(frozen=True, slots=True)
class History:
    """The size of a history."""

    requests: int = 1_000_000
    days: int = 60
    models: int = 12
    keys: int = 20
    models_per_key: int = 4
    """An application uses a few models and has a key of its own."""
    end_ms: int = END_MS

    @property
    def begin_ms(self) -> int:
        return self.end_ms - self.days * DAY_MS

    @property
    def values(self) -> dict[str, int | str]:
        """The values that the statements name."""
        return asdict(self) | {
            "begin_ms": self.begin_ms,
            "moves": MOVES,
            "credit_nano": CREDIT_NANO,
            "price_id": PRICE.id,
            "price": PRICE.text,
        }


@dataclass(frozen=True, slots=True)
class Busy:
    """A database with a history, and the account that most of it is of."""

    history: History
    account_id: int

    @property
    def today(self) -> int:
        return self.history.end_ms // DAY_MS


@dataclass(frozen=True, slots=True)
class Filled(Busy):
    path: Path

    def open_books(self) -> SqliteBooks:
        return SqliteBooks(self.path, clock=lambda: self.history.end_ms)


def read_sql(name: str, folder: Path = HERE) -> str:
    return (folder / f"{name}.sql").read_text(encoding="utf-8")


def list_statements(*names: str, folder: Path = HERE) -> list[str]:
    """List the statements of scripts, to be run with values."""
    return [one for name in names for one in read_sql(name, folder).split(";\n") if one.strip()]


def fill(path: Path, history: History | None = None) -> Filled:
    """Fill a database, new or without requests, with the account and its history."""
    history = history or History()
    with closing(connect(path, create=True)) as connection:
        account_id = write_history(connection, history)
    return Filled(history, account_id, path)


def fill_previous(path: Path, history: History | None = None) -> Filled:
    """Write a database like a gateway of the schema's version before; opening upgrades it."""
    filled = fill(path, history)
    take_back(path)
    return filled


def take_back(path: Path) -> None:
    """Take a database back to the schema's version before."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(read_sql("previous"))
        connection.execute(f"PRAGMA user_version = {VERSION - 1}")


def write_history(connection: sqlite3.Connection, history: History) -> int:
    """Write the history to a database without requests; return the account's id."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN IMMEDIATE")
    (account_id,) = connection.execute(
        "INSERT INTO accounts (name, created_ms) VALUES (?, ?) RETURNING id",
        (ACCOUNT, history.begin_ms),
    ).fetchone()
    known = history.values | {"account_id": account_id}
    with naming_charges(connection):
        added = (
            sql
            for one in ROOT.glob("tests/extras/*/history.sql")
            for sql in list_statements(one.stem, folder=one.parent)
        )
        for sql in (*list_statements("million", "sums"), *added, SUM_UP_DAYS, NOTE_FOLDED):
            connection.execute(sql, known)
    file_all(connection, "requests ORDER BY 1, 2")
    connection.execute(FILE_ENTRIES)
    connection.execute("COMMIT")
    return int(account_id)


class Watch:
    """A watch that is started anew each time it tells."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def tell(self, what: str) -> None:
        print(f"{time.monotonic() - self._since:6.1f} s   {what}")
        self._since = time.monotonic()


def audit(books: Books, watch: Watch) -> None:
    problems = books.audit().problems
    watch.tell("the audit")
    assert not problems, "\n".join(problems)


def measure(read: Callable[[], object], cpu_ns: Callable[[], int] = time.thread_time_ns) -> float:
    """Return the CPU milliseconds of a page, which other load does not change: the median of five."""
    times = []
    for _ in range(5):
        started = cpu_ns()
        read()
        times.append((cpu_ns() - started) / 1e6)
    return sorted(times)[2]


PAGE_MS: Final = 50


def show_pages(figures: dict[str, float]) -> None:
    print("\n".join(f"{ms:6.1f} ms  {page}" for page, ms in figures.items()))
    slow = [page for page, ms in figures.items() if ms > PAGE_MS]
    assert not slow, f"slower than {PAGE_MS} ms: {slow}"
