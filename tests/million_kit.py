"""A long history in seconds: an account with a million requests, as the gateway would have kept it.

    filled = fill(tmp_path / "gateway.db")              # a million requests of 60 days
    with filled.open_books() as books:                  # whose clock stands at the end of it
        figures = measure_pages(books, filled)

All of it is written by a few statements, and the audit passes: requests, charges, some codes,
credits and corrections, the sums by hour and day, and what the account and its keys have left.
What differs from request to request comes from its number, so that every fill is the same.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from gateway.ledger.batch import EntryKind
from gateway.ledger.books import Books
from gateway.ledger.records import CallFilter, EntryFilter
from gateway.ledger.schema import MIGRATIONS, connect
from gateway.ledger.usage_records import UsageFilter
from gateway.times import DAY_MS, HOUR_MS

ACCOUNT: Final = "busy"
END_MS: Final = 20_600 * DAY_MS + 13 * HOUR_MS
"""Where the history ends, within a day: 2026-05-27T13:00Z."""
CREDIT_NANO: Final = 10**15
KEY: Final = "key_000000000003"
MODEL: Final = "vendor/model-03"
MOVES: Final = 60
"""Credits, codes and corrections in all."""


@dataclass(frozen=True, slots=True)
class History:
    """How much of it there is."""

    requests: int = 1_000_000
    days: int = 60
    models: int = 12
    keys: int = 20
    models_per_key: int = 4
    """An application uses a few of them, and has a key of its own."""
    end_ms: int = END_MS


@dataclass(frozen=True, slots=True)
class Filled:
    path: Path
    history: History
    account_id: int

    @property
    def today(self) -> int:
        return self.history.end_ms // DAY_MS

    def choose(
        self, days: int, *, key_id: str | None = None, model: str | None = None
    ) -> UsageFilter:
        """The last days, today among them."""
        return UsageFilter(self.account_id, self.today - days + 1, self.today, key_id, model)

    def open_books(self) -> Books:
        return Books.open(self.path, clock=lambda: self.history.end_ms)


_KEYS: Final = """
    WITH RECURSIVE numbers (n) AS (
        SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :keys - 1
    )
    INSERT INTO keys (id, account_id, name, digest, last4, created_ms)
    SELECT printf('key_%012d', n), :account_id, 'key ' || n,
        CAST(printf('%032d', :account_id * 1000000 + n) AS BLOB), printf('%04d', n), :begin_ms
    FROM numbers
"""
_REQUESTS: Final = """
    WITH RECURSIVE numbers (n) AS (
        SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :requests - 1
    ),
    chances (n, chance) AS MATERIALIZED (
        SELECT n, (n * 2654435761 >> 7) & 0xffffff FROM numbers
    ),
    mixed (n, chance, key, started_ms) AS MATERIALIZED (
        SELECT n, chance, chance / 64 % :keys,
            :begin_ms + n * (:end_ms - :begin_ms - 10000) / :requests
        FROM chances
    )
    INSERT INTO requests
    SELECT printf('req_%012x%016x', started_ms, n), :account_id, printf('key_%012d', key),
        printf('vendor/model-%02d', (key + chance / 4096 % :models_per_key) % :models),
        'vendor', chance % 2, 1000000,
        iif(chance % 50, 'posted', 'voided'),
        chance % 5000, chance % 300, chance % 7, chance % 900, 150, 75, 150, 600, 0,
        iif(chance % 50, 1 + chance * 3, 0), chance % 90 = 0,
        iif(chance % 50, 'complete', 'upstream_error'), iif(chance % 50, 200, 502), 1,
        started_ms, 100 + chance % 900, started_ms + 1000 + chance % 8000
    FROM mixed
"""
_MOVES: Final = """
    WITH RECURSIVE numbers (n) AS (
        SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :moves - 1
    ),
    moves (n, kind, amount_nano) AS (
        SELECT n, CASE n % 3 WHEN 0 THEN 'credit' WHEN 1 THEN 'code' ELSE 'correction' END,
            CASE n % 3 WHEN 2 THEN -n ELSE :credit_nano END
        FROM numbers
    )
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, note, created_ms)
    SELECT :account_id, CASE WHEN :version = 1 AND kind = 'code' THEN 'credit' ELSE kind END,
        amount_nano, sum(amount_nano) OVER (ORDER BY n), 'move ' || n, :begin_ms + n
    FROM moves ORDER BY n
"""
_CHARGES: Final = """
    INSERT INTO entries (
        account_id, kind, amount_nano, balance_after_nano, request_id, created_ms
    )
    SELECT :account_id, 'charge', -cost_nano,
        (SELECT balance_after_nano FROM entries WHERE account_id = :account_id
            ORDER BY id DESC LIMIT 1) - sum(cost_nano) OVER (ORDER BY id),
        id, ended_ms
    FROM requests WHERE account_id = :account_id AND state = 'posted' ORDER BY id
"""
_BALANCE: Final = """
    UPDATE accounts SET balance_nano = (
        SELECT balance_after_nano FROM entries WHERE account_id = accounts.id
        ORDER BY id DESC LIMIT 1
    ) WHERE id = :account_id
"""
_SPENT: Final = """
    UPDATE keys SET spent_nano = sums.cost_nano FROM (
        SELECT key_id, sum(cost_nano) AS cost_nano FROM requests GROUP BY key_id
    ) AS sums WHERE keys.id = sums.key_id
"""
_LAST_USED: Final = """
    UPDATE keys SET last_used_ms = sums.ended_ms FROM (
        SELECT key_id, max(ended_ms) AS ended_ms FROM requests WHERE state = 'posted'
        GROUP BY key_id
    ) AS sums WHERE keys.id = sums.key_id
"""
_HOURLY: Final = """
    INSERT INTO hourly
    SELECT account_id, ended_ms / 3600000, model, key_id, sum(state = 'posted'),
        sum(state = 'voided'), sum(iif(state = 'posted', input_tokens, 0)),
        sum(iif(state = 'posted', cached_input_tokens, 0)),
        sum(iif(state = 'posted', cache_write_tokens, 0)),
        sum(iif(state = 'posted', output_tokens, 0)), sum(cost_nano)
    FROM requests GROUP BY 1, 2, 3, 4
"""
_DAILY: Final = """
    INSERT INTO daily
    SELECT account_id, hour / 24, model, key_id, sum(requests), sum(failed), sum(input_tokens),
        sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens), sum(cost_nano)
    FROM hourly GROUP BY 1, 2, 3, 4
"""
_HISTORY: Final = (_KEYS, _REQUESTS, _MOVES, _CHARGES, _BALANCE, _SPENT)
"""What a database of the first version has as well."""
_TOTALS: Final = (_LAST_USED, _HOURLY, _DAILY)


def fill(path: Path, history: History | None = None, *, account: str = ACCOUNT) -> Filled:
    """A database with the account and its history: a new one, or one that has no requests yet."""
    history = history or History()
    with closing(connect(path, create=True)) as connection:
        account_id = write_history(connection, history, account)
    return Filled(path, history, account_id)


def fill_first_version(path: Path, history: History | None = None) -> Filled:
    """As a gateway of schema version 1 would have left it; whoever opens it migrates it."""
    history = history or History()
    script = resources.files("gateway.ledger").joinpath("schema.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(script + "PRAGMA user_version = 1;")
        return Filled(path, history, write_history(connection, history))


def write_history(connection: sqlite3.Connection, history: History, account: str = ACCOUNT) -> int:
    """On a database of any version, which is to have no requests; the account's id."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    begin_ms = history.end_ms - history.days * DAY_MS
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN IMMEDIATE")
    (account_id,) = connection.execute(
        "INSERT INTO accounts (name, created_ms) VALUES (?, ?) RETURNING id", (account, begin_ms)
    ).fetchone()
    known = {
        "account_id": account_id,
        "requests": history.requests,
        "models": history.models,
        "keys": history.keys,
        "models_per_key": history.models_per_key,
        "begin_ms": begin_ms,
        "end_ms": history.end_ms,
        "moves": MOVES,
        "credit_nano": CREDIT_NANO,
        "version": version,
    }
    for sql in _HISTORY + (_TOTALS if version == len(MIGRATIONS) else ()):
        connection.execute(sql, known)
    connection.execute("COMMIT")
    return int(account_id)


def measure_pages(books: Books, filled: Filled) -> dict[str, float]:
    """Milliseconds of processor time that the books take for a page: the median of five.

    Not of the clock on the wall: the machine may be busy with other things.
    """
    account, today = filled.account_id, filled.today
    pages: dict[str, Callable[[], object]] = {
        "overview": lambda: _read_overview(books, filled),
        "usage, 30 days": lambda: books.usage_report(filled.choose(30), "day"),
        "usage, 366 days": lambda: books.usage_report(filled.choose(366), "day"),
        "usage, 366 days by key": lambda: books.usage_report(
            filled.choose(366), "day", by_key=True
        ),
        "usage, 31 days by hour": lambda: books.usage_report(filled.choose(31), "hour"),
        "usage, 31 days by hour, one key": lambda: books.usage_report(
            filled.choose(31, key_id=KEY), "hour"
        ),
        "usage, 31 days by hour, one model": lambda: books.usage_report(
            filled.choose(31, model=MODEL), "hour"
        ),
        "keys": lambda: books.spent_by_key(account, today - 29, today),
        "billing": lambda: _read_billing(books, None, account),
        "billing, codes": lambda: _read_billing(books, "code", account),
        "billing, charges": lambda: _read_billing(books, "charge", account),
        "activity": lambda: _read_calls(books, CallFilter(account)),
        "activity, one key": lambda: _read_calls(books, CallFilter(account, key_id=KEY)),
        "activity, one model": lambda: _read_calls(books, CallFilter(account, model=MODEL)),
        "activity, one day": lambda: _read_calls(
            books, CallFilter(account, first_day=today - 9, last_day=today - 9)
        ),
        "activity, nothing found": lambda: _read_calls(books, CallFilter(account, model="none")),
        "accounts": lambda: books.standings([account], since_day=today - 29),
    }
    return {page: _measure(read) for page, read in pages.items()}


def _measure(read: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.thread_time_ns()
        read()
        times.append((time.thread_time_ns() - started) / 1e6)
    return sorted(times)[2]


def _read_overview(books: Books, filled: Filled) -> None:
    with books.snapshot():
        books.account(ACCOUNT)
        books.overview(filled.account_id, first_day=filled.today - 29, soon_ms=7 * DAY_MS)
        books.latest_calls(filled.account_id, 10)


def _read_billing(books: Books, kind: EntryKind | None, account_id: int) -> None:
    books.account(ACCOUNT)
    books.count_entries(account_id, kind)
    books.entry_run(EntryFilter(account_id, kind), None, 51)


def _read_calls(books: Books, chosen: CallFilter) -> None:
    books.count_calls(chosen)
    books.calls(chosen, None, 51)
