"""Write a long history in seconds: a million requests of one account, like the gateway would.

    filled = fill(tmp_path / "gateway.db")              # a million requests of 60 days
    with filled.open_books() as books:                  # whose clock stands at the end of it
        figures = measure_pages(books, filled)

A few statements write all of it, and the audit passes: requests, charges, some codes, credits and
corrections, the sums by hour and day, and the balances of the account and its keys. Everything
that differs between requests comes from their number, so every fill is the same.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gateway.ledger.call_records import CallFilter, UsageFilter
from gateway.ledger.records import EntryFilter, EntryKind
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.folds import (
    FILE_ENTRIES,
    NOTE_FOLDED,
    SUM_UP_DAYS,
    file_all,
    naming_charges,
)
from gateway.ledger.sqlite.schema import VERSION, connect
from gateway.money import MILLION, Price
from gateway.prices import AppliedPrice
from gateway.times import DAY_MS, HOUR_MS

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
BACK: Final = f"""
    DROP TABLE order_fees;
    DROP TABLE daily_totals;
    CREATE TABLE daily_costs (
        account_id INTEGER NOT NULL REFERENCES accounts (id),
        day INTEGER NOT NULL,
        model TEXT NOT NULL,
        key_id TEXT NOT NULL REFERENCES keys (id),
        known INTEGER NOT NULL,
        charged_nano INTEGER NOT NULL,
        cost_nano INTEGER NOT NULL,
        reported INTEGER NOT NULL,
        reported_nano INTEGER NOT NULL,
        compared INTEGER NOT NULL,
        difference_nano INTEGER NOT NULL,
        PRIMARY KEY (account_id, day, model, key_id)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO daily_costs
    SELECT account_id, day, model, key_id, sum(known), sum(charged_nano), sum(provider_cost_nano),
        sum(reported), sum(reported_nano), sum(compared), sum(difference_nano)
    FROM daily GROUP BY 1, 2, 3, 4 HAVING sum(known) + sum(reported) > 0;
    ALTER TABLE daily RENAME TO later;
    CREATE TABLE daily (
        account_id INTEGER NOT NULL REFERENCES accounts (id),
        day INTEGER NOT NULL,
        model TEXT NOT NULL,
        key_id TEXT NOT NULL REFERENCES keys (id),
        requests INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        cached_input_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cost_nano INTEGER NOT NULL,
        PRIMARY KEY (account_id, day, model, key_id)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO daily
    SELECT account_id, day, model, key_id, sum(requests), sum(failed), sum(input_tokens),
        sum(cached_input_tokens), sum(cache_write_tokens), sum(output_tokens), sum(cost_nano)
    FROM later GROUP BY 1, 2, 3, 4;
    DROP TABLE later;
    ALTER TABLE passwords RENAME TO new_passwords;
    ALTER TABLE totp RENAME TO new_totp;
    ALTER TABLE recovery_codes RENAME TO new_recovery_codes;
    ALTER TABLE signin_links RENAME TO new_signin_links;
    CREATE TABLE passwords (
        account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
        hash TEXT NOT NULL,
        changed_ms INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE totp (
        account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
        secret BLOB NOT NULL CHECK (length(secret) = 20),
        last_step INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        confirmed_ms INTEGER
    ) STRICT;
    CREATE TABLE recovery_codes (
        digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
        account_id INTEGER NOT NULL REFERENCES totp (account_id)
    ) STRICT;
    CREATE TABLE signin_links (
        account_id INTEGER PRIMARY KEY REFERENCES accounts (id),
        digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL
    ) STRICT;
    INSERT INTO passwords SELECT account_id, hash, changed_ms FROM new_passwords;
    INSERT INTO totp
    SELECT account_id, secret, last_step, created_ms, confirmed_ms FROM new_totp;
    INSERT INTO recovery_codes SELECT digest, account_id FROM new_recovery_codes;
    INSERT INTO signin_links
    SELECT account_id, digest, created_ms, expires_ms FROM new_signin_links;
    DROP TABLE new_recovery_codes;
    DROP TABLE new_totp;
    DROP TABLE new_passwords;
    DROP TABLE new_signin_links;
    CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
    DROP INDEX sessions_by_account;
    ALTER TABLE sessions DROP COLUMN person;
    CREATE INDEX sessions_by_account ON sessions (account_id);
    PRAGMA user_version = {VERSION - 1};
"""
"""Takes a database of this version of the schema back to the one before."""


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


@dataclass(frozen=True, slots=True)
class Busy:
    """A database with a history, and the account that most of it is of."""

    history: History
    account_id: int

    @property
    def today(self) -> int:
        return self.history.end_ms // DAY_MS

    def choose(
        self, days: int, *, key_id: str | None = None, model: str | None = None
    ) -> UsageFilter:
        """Return a filter for the last days, today included."""
        return UsageFilter(self.account_id, self.today - days + 1, self.today, key_id, model)


@dataclass(frozen=True, slots=True)
class Filled(Busy):
    path: Path

    def open_books(self) -> SqliteBooks:
        return SqliteBooks(self.path, clock=lambda: self.history.end_ms)


_PRICES: Final = "INSERT OR IGNORE INTO prices (id, price) VALUES (:price_id, :price)"
_KEYS: Final = """
    WITH RECURSIVE numbers (n) AS (
        SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :keys - 1
    )
    INSERT INTO keys (id, origin_id, account_id, name, digest, last4, created_ms)
    SELECT printf('key_%012d', n), printf('key_%012d', n), :account_id, 'key ' || n,
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
    INSERT INTO requests (
        id, account_id, key_id, model, provider, stream, hold_nano, state,
        input_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
        price_id, cost_nano, estimated, outcome, status, attempts,
        started_ms, first_byte_ms, ended_ms
    )
    SELECT printf('req_%012x%016x', started_ms, n), :account_id, printf('key_%012d', key),
        printf('vendor/model-%02d', (key + chance / 4096 % :models_per_key) % :models),
        iif(n % 100003, 'vendor', 'fallback'), chance % 2, 1000000,
        iif(chance % 50, 'posted', 'voided'),
        chance % 5000, chance % 300, chance % 7, 0, chance % 900, :price_id,
        iif(chance % 50, 3000 * (chance % 5000) + 300 * (chance % 300) + 3750 * (chance % 7)
            + 15000 * (chance % 900), 0), chance % 90 = 0,
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
    SELECT :account_id, kind, amount_nano, sum(amount_nano) OVER (ORDER BY n), 'move ' || n, :begin_ms + n
    FROM moves ORDER BY n
"""
_CHARGES: Final = """
    INSERT INTO entries (
        account_id, kind, amount_nano, balance_after_nano, request_id, created_ms
    )
    SELECT account_id, 'charge', -cost_nano,
        balance_nano - sum(cost_nano) OVER (PARTITION BY account_id ORDER BY requests.id),
        requests.id, ended_ms
    FROM requests JOIN (
        SELECT account_id, sum(amount_nano) AS balance_nano FROM entries GROUP BY 1
    ) AS credited USING (account_id)
    WHERE state = 'posted' ORDER BY requests.id
"""
_BALANCE: Final = """
    UPDATE accounts SET balance_nano = sums.balance_nano FROM (
        SELECT account_id, sum(amount_nano) AS balance_nano FROM entries GROUP BY 1
    ) AS sums WHERE accounts.id = account_id
"""
_SPENT: Final = """
    UPDATE keys SET spent_nano = sums.cost_nano, last_used_ms = sums.ended_ms FROM (
        SELECT key_id, sum(cost_nano) AS cost_nano,
            max(ended_ms) FILTER (WHERE state = 'posted') AS ended_ms
        FROM requests GROUP BY 1
    ) AS sums WHERE keys.id = sums.key_id
"""
_HOURLY: Final = """
    INSERT INTO hourly
    SELECT account_id, ended_ms / 3600000, model, key_id, count(*) FILTER (WHERE state = 'posted'),
        count(*) FILTER (WHERE state = 'voided'),
        coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0),
        coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0),
        coalesce(sum(cache_write_tokens) FILTER (WHERE state = 'posted'), 0),
        coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0), sum(cost_nano)
    FROM requests GROUP BY 1, 2, 3, 4 ORDER BY 2
"""
_DAILY: Final = """
    INSERT INTO daily
    SELECT account_id, ended_ms / 86400000, model, key_id, provider,
        count(*) FILTER (WHERE state = 'posted'), count(*) FILTER (WHERE state = 'voided'),
        coalesce(sum(input_tokens) FILTER (WHERE state = 'posted'), 0),
        coalesce(sum(cached_input_tokens) FILTER (WHERE state = 'posted'), 0),
        coalesce(sum(cache_write_tokens) FILTER (WHERE state = 'posted'), 0),
        coalesce(sum(output_tokens) FILTER (WHERE state = 'posted'), 0), sum(cost_nano),
        count(provider_cost_nano),
        coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0),
        coalesce(sum(provider_cost_nano), 0), 0, 0, 0, 0
    FROM requests GROUP BY 1, 2, 3, 4, 5 ORDER BY 2
"""
SUMS: Final = (_CHARGES, _BALANCE, _SPENT, _HOURLY, _DAILY)
"""Statements that derive sums from requests and moves, in the SQL of both databases."""
_CODES: Final = """
    INSERT INTO codes (
        id, batch, digest, last4, amount_nano, note, created_by, created_ms,
        redeemed_ms, redeemed_by, entry_id
    )
    SELECT 'code_' || id, 'batch', CAST(printf('%032d', id) AS BLOB), printf('%04d', id % 10000),
        amount_nano, '', 'nobody', created_ms, created_ms, account_id, id
    FROM entries WHERE kind = 'code'
"""
_HISTORY: Final = (_PRICES, _KEYS, _REQUESTS, _MOVES, *SUMS, SUM_UP_DAYS, NOTE_FOLDED, _CODES)


def fill(path: Path, history: History | None = None, *, account: str = ACCOUNT) -> Filled:
    """Fill a database, new or without requests, with the account and its history."""
    history = history or History()
    with closing(connect(path, create=True)) as connection:
        account_id = write_history(connection, history, account)
    return Filled(history, account_id, path)


def fill_previous(path: Path, history: History | None = None) -> Filled:
    """Write a database like a gateway of the schema's version before; opening upgrades it."""
    filled = fill(path, history)
    take_back(path)
    return filled


def take_back(path: Path) -> None:
    """Take a database back to the schema's version before."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(BACK)


def write_history(connection: sqlite3.Connection, history: History, account: str = ACCOUNT) -> int:
    """Write the history to a database without requests; return the account's id."""
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
        "price_id": PRICE.id,
        "price": PRICE.text,
    }
    with naming_charges(connection):
        for sql in _HISTORY:
            connection.execute(sql, known)
    file_all(connection, "requests ORDER BY 1, 2")
    connection.execute(FILE_ENTRIES)
    connection.execute("COMMIT")
    return int(account_id)


def measure_pages(books: Books, filled: Filled) -> dict[str, float]:
    """Measure the books' CPU milliseconds for a page: the median of five.

    CPU time does not depend on other load on the machine.
    """
    return {page: _measure(read) for page, read in make_pages(books, filled).items()}


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
        "usage, 30 days": lambda: books.usage.report(filled.choose(30), "day"),
        "usage, 366 days": lambda: books.usage.report(filled.choose(366), "day"),
        "usage, 366 days by key": lambda: books.usage.report(
            filled.choose(366), "day", by_key=True
        ),
        "costs, 366 days by provider": lambda: books.usage.sum_with_costs(
            "provider", since_ms=(today - 365) * DAY_MS, until_ms=None
        ),
        "usage, 31 days by hour": lambda: books.usage.report(filled.choose(31), "hour"),
        "usage, 31 days by hour, one key": lambda: books.usage.report(
            filled.choose(31, key_id=KEY), "hour"
        ),
        "usage, 31 days by hour, one model": lambda: books.usage.report(
            filled.choose(31, model=MODEL), "hour"
        ),
        "keys": lambda: books.usage.sum_by_key(account, today - 29, today),
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
        "accounts": lambda: books.accounts.read_standings([account], today=today),
        "accounts by spend": lambda: books.accounts.rank("spent_30d", today=today),
    }


def _measure(read: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.thread_time_ns()
        read()
        times.append((time.thread_time_ns() - started) / 1e6)
    return sorted(times)[2]


def _read_overview(books: Books, filled: Busy) -> None:
    with books.snapshot():
        books.accounts.read(ACCOUNT)
        books.usage.read_overview(
            filled.account_id, first_day=filled.today - 29, soon_ms=7 * DAY_MS
        )
        books.calls.read_page(CallFilter(filled.account_id), None, 10)


def _read_billing(books: Books, kind: EntryKind | None, account_id: int) -> None:
    books.accounts.read(ACCOUNT)
    books.entries.count(account_id, kind)
    books.entries.read_run(EntryFilter(account_id, kind), None, 51)


def _read_calls(books: Books, chosen: CallFilter) -> None:
    books.calls.count(chosen)
    books.calls.read_page(chosen, None, 51)
