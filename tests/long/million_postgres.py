"""Write a long history into PostgreSQL: a million requests of many accounts, in a minute.

    filled = fill(url, PostgresHistory())
    with filled.open_books() as books:                  # whose clock stands at the end of it
        figures = measure_pages(books, filled)          # milliseconds of each page

It is like that of `tests.long.million`: half of the requests are of one account, the others of all
others. The audit passes, and every fill is the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gateway.ledger.call_records import CallFilter, UsageGroup
from gateway.ledger.opening import open_ledger
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.schema import open_session
from gateway.ledger.postgres.session import Session
from gateway.ledger.records import AccountOrder, DatabaseUrl, EntryFilter
from gateway.ledger.sql.books import Books
from gateway.times import DAY_MS
from tests.long.million import ACCOUNT, CREDIT_NANO, MOVES, PRICE, SUMS, Busy, History, make_pages
from tests.support.postgres import find_server, run_cluster

RUNS: Final = 5
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


_MONTHS: Final = """
    SELECT make_months(at, 0) FROM generate_series(
        date_trunc('month', to_timestamp(:begin_ms / 1000)), to_timestamp(:end_ms / 1000),
        INTERVAL '1 month'
    ) AS at
"""
_PRICES: Final = "INSERT INTO prices (id, price) VALUES (:price_id, :price)"
_ACCOUNTS: Final = """
    INSERT INTO accounts (name, created_ms)
    SELECT CASE n WHEN 1 THEN :account ELSE 'account-' || n END, :begin_ms
    FROM generate_series(1, :accounts) AS n ORDER BY n
"""
_KEYS: Final = """
    INSERT INTO keys (id, origin_id, account_id, name, digest, last4, created_ms)
    SELECT 'key_' || lpad(n::text, 12, '0'), 'key_' || lpad(n::text, 12, '0'), greatest(n - :keys + 2, 1), 'key ' || n,
        lpad(n::text, 32, '0')::bytea, lpad((n % 10000)::text, 4, '0'), :begin_ms
    FROM generate_series(0, :keys + :accounts - 2) AS n
"""
_REQUESTS: Final = """
    WITH chances AS MATERIALIZED (
        SELECT n, (n * 2654435761 >> 7) & 16777215 AS chance
        FROM generate_series(0::bigint, :requests - 1) AS n
    ), mixed AS MATERIALIZED (
        SELECT n, chance, CASE WHEN chance % 2 = 0 OR :accounts = 1 THEN chance / 64 % :keys
            ELSE :keys + chance / 64 % greatest(:accounts - 1, 1) END AS key,
            :begin_ms + n * (:end_ms - :begin_ms - 10000) / :requests AS started_ms
        FROM chances
    ), chosen AS MATERIALIZED (
        SELECT *, (key + chance / 4096 % :models_per_key) % :models AS model, chance % 49 = 0 AS failed
        FROM mixed
    )
    INSERT INTO requests (
        id, account_id, key_id, model, provider, stream, hold_nano, state,
        input_tokens, cached_input_tokens, cache_write_tokens, output_tokens,
        price_id, cost_nano, estimated, outcome, status, attempts,
        started_ms, first_byte_ms, ended_ms
    )
    SELECT 'req_' || lpad(to_hex(started_ms), 12, '0') || lpad(to_hex(n), 16, '0'),
        greatest(key - :keys + 2, 1), 'key_' || lpad(key::text, 12, '0'),
        'vendor/model-' || lpad(model::text, 2, '0'),
        CASE WHEN n % 100003 = 0 THEN 'fallback' ELSE ('{vendor,maker,cloud}'::text[])[1 + model % 3] END,
        chance / 8 % 2, 1000000, CASE WHEN failed THEN 'voided' ELSE 'posted' END,
        1 + chance % 5000, chance % 300, chance % 7, chance % 900, :price_id,
        CASE WHEN failed THEN 0 ELSE 3000 * (1 + chance % 5000) + 300 * (chance % 300)
            + 3750 * (chance % 7) + 15000 * (chance % 900) END, CASE chance % 90 WHEN 0 THEN 1 ELSE 0 END,
        CASE WHEN failed THEN 'upstream_error' ELSE 'complete' END,
        CASE WHEN failed THEN 502 ELSE 200 END, 1,
        started_ms, 100 + chance % 900, started_ms + 1000 + chance % 8000
    FROM chosen ORDER BY n
"""
_MOVES: Final = """
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, note, created_ms)
    SELECT account_id, kind, amount_nano, sum(amount_nano) OVER (PARTITION BY account_id ORDER BY n),
        'move ' || n, :begin_ms + n
    FROM (
        SELECT 1 AS account_id, n, (CASE n % 3
            WHEN 0 THEN '{credit}' WHEN 1 THEN '{code}' ELSE '{correction}' END::text[])[1] AS kind,
            CASE n % 3 WHEN 2 THEN -n ELSE :credit_nano END AS amount_nano
        FROM generate_series(0, :moves - 1) AS n
        UNION ALL SELECT id, 0, 'credit', :credit_nano FROM accounts WHERE id > 1
    ) AS moves ORDER BY account_id, n
"""
_CODES: Final = """
    INSERT INTO codes (
        id, batch, digest, last4, amount_nano, note, created_by, created_ms,
        redeemed_ms, redeemed_by, entry_id
    )
    SELECT 'code_' || id, 'batch', lpad(id::text, 32, '0')::bytea, lpad((id % 10000)::text, 4, '0'),
        amount_nano, '', 'nobody', created_ms, created_ms, account_id, id
    FROM entries WHERE kind = 'code'
"""
_EVENTS: Final = """
    INSERT INTO events (at_ms, actor, action, account, target, detail)
    SELECT :begin_ms + n, 'operator', ('{account.edit,key.add,key.edit,signin}'::text[])[1 + n % 4],
        'account-' || n % :accounts, 'key_' || lpad(n::text, 12, '0'), 'some detail'
    FROM generate_series(1, :events) AS n
"""
_REFUSALS: Final = """
    INSERT INTO refusals
    SELECT hour, 1 + hour * 7 % :accounts, code, 'vendor/model-0' || hour % 10, 9, hour * 3600000,
        'req_' || hour
    FROM generate_series(:end_ms / 3600000 - 24 * 31, :end_ms / 3600000) AS hour,
        unnest('{insufficient_balance,rate_limited,model_not_found}'::text[]) AS code
"""
_UPSTREAM_CALLS: Final = """
    INSERT INTO upstream_calls (
        slot, provider, upstream_model, calls, failures, failed_ms, failed_request_id,
        failed_status, reason, url
    )
    SELECT slot, ('{vendor,maker,cloud}'::text[])[1 + model % 3], 'model-' || model, 9, 1,
        slot * 600000, 'req_' || slot, 502, 'status 502', 'https://vendor.example/v1'
    FROM generate_series(:end_ms / 600000 - 144 * 31, :end_ms / 600000) AS slot,
        generate_series(0, :models - 1) AS model
"""
_UPSTREAM_FAILURES: Final = """
    INSERT INTO upstream_failures (failed_ms, request_id, status, reason, url)
    SELECT ended_ms, id, 502, 'status 502', 'https://vendor.example/v1' FROM requests
    WHERE outcome NOT IN ('pending', 'complete') ORDER BY id DESC LIMIT :failures
"""
_HISTORY: Final = (
    _MONTHS, _PRICES, _ACCOUNTS, _KEYS, _REQUESTS, _MOVES, *SUMS,
    _CODES, _EVENTS, _REFUSALS, _UPSTREAM_CALLS, _UPSTREAM_FAILURES,
)  # fmt: skip


def fill(url: str, history: PostgresHistory | None = None) -> FilledDatabase:
    """Fill a database without a ledger."""
    history = history or PostgresHistory()
    with closing(open_session(url, create=True)) as session:
        session.run("BEGIN; SET LOCAL work_mem = '256MB'; SET LOCAL synchronous_commit = off")
        _write(session, history)
        session.run("COMMIT")
        session.run("ANALYZE")
    return FilledDatabase(history, 1, url)


def _write(session: Session, history: PostgresHistory) -> None:
    names = ("requests", "models", "keys", "models_per_key", "end_ms", "accounts", "events")
    known: dict[str, int | str] = {name: getattr(history, name) for name in names}
    known |= {
        "account": ACCOUNT,
        "begin_ms": history.end_ms - history.days * DAY_MS,
        "moves": MOVES,
        "credit_nano": CREDIT_NANO,
        "failures": history.failures,
        "price_id": PRICE.id,
        "price": PRICE.text,
    }
    for sql in _HISTORY:
        session.execute(sql, known)


async def play_million(history: PostgresHistory | None = None) -> dict[str, float]:
    """Fill a server of its own, audit it, start a gateway's ledger, and measure the pages."""
    programs = find_server()
    assert programs is not None, "no PostgreSQL server: apt-get install postgresql"
    with run_cluster(programs) as cluster:
        clock = _Watch()
        filled = fill(cluster.make_database(), history)
        clock.tell(f"{filled.history.requests} requests are filled")
        for what in ("the first start, which proves all entries", "the next start"):
            async with open_ledger(DatabaseUrl(filled.url)):
                clock.tell(what)
        with filled.open_books() as books:
            clock.start()
            problems = books.audit().problems
            clock.tell("the audit")
            assert not problems, "\n".join(problems)
            return measure_pages(books, filled)


class _Watch:
    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._since = time.monotonic()

    def tell(self, what: str) -> None:
        """Print how long it took, and start anew."""
        print(f"{time.monotonic() - self._since:6.1f} s   {what}")
        self.start()


def measure_pages(books: PostgresBooks, filled: FilledDatabase) -> dict[str, float]:
    """Measure the CPU milliseconds of a page, the server's and the books': the median of five.

    The server is on this machine, and one process of it does all work of a page.
    """
    books.connection.execute("SET max_parallel_workers_per_gather = 0")
    server = Path(f"/proc/{books.read_number('SELECT pg_backend_pid()')}/schedstat")
    pages = {**make_pages(books, filled), **_make_more_pages(books, filled)}
    return {page: _measure(read, server) for page, read in pages.items()}


def _make_more_pages(books: Books, filled: FilledDatabase) -> dict[str, Callable[[], object]]:
    """The pages of operators that many accounts make long."""
    account, today = filled.account_id, filled.today
    page, month_ms = list(range(1, min(filled.history.accounts, 50) + 1)), (today - 29) * DAY_MS
    return {
        "accounts, a page": lambda: books.accounts.read_standings(page, today=today),
        **{f"accounts by {by}": partial(books.accounts.rank, by, today=today) for by in _ORDERS},
        "account names": lambda: books.accounts.find_names("account-1"),
        "latest entries": lambda: books.entries.read_latest(ACCOUNT, 20),
        "entries, an early page": lambda: books.entries.read_run(EntryFilter(account), 9000, 51),
        **{f"usage of all by {by}, 30 days": partial(_sum, books, by, month_ms) for by in _GROUPS},
        "usage of one, all time": lambda: books.usage.sum_by(
            "day", account=ACCOUNT, since_ms=None, until_ms=None
        ),
        "pending": books.calls.measure_pending,
        "one call": partial(_read_one, books, account),
        "keys, a page": lambda: books.keys.read_page(
            account, live_at_ms=None, after=None, limit=51
        ),
        "events": partial(_search_events, books, None),
        "events, searched": partial(_search_events, books, "account-77"),
        "refusals": lambda: books.observations.read_refusals(None, month_ms),
        "refusals of one": lambda: books.observations.read_refusals(account, month_ms),
        "providers": books.observations.read_upstream,
        "codes": lambda: books.codes.read_page(None, None, None, 51),
    }


def _sum(books: Books, by: UsageGroup, since_ms: int) -> None:
    """Read what the command `usage` shows of all accounts."""
    books.usage.sum_by(by, account=None, since_ms=since_ms, until_ms=None)
    books.usage.sum_costs(by, account=None, since_ms=since_ms, until_ms=None)


def _read_one(books: Books, account_id: int) -> None:
    (call,) = books.calls.read_page(CallFilter(account_id), None, 1)
    books.calls.read_detail(call.request_id)


def _search_events(books: Books, part: str | None) -> None:
    books.events.count(part)
    books.events.read_page(part, None, 51)


def _measure(read: Callable[[], object], server: Path) -> float:
    times = []
    for _ in range(RUNS):
        started = _read_cpu_ns(server)
        read()
        times.append((_read_cpu_ns(server) - started) / 1e6)
    return statistics.median(times)


def _read_cpu_ns(server: Path) -> int:
    """Return the time that this thread and the server's process had a processor."""
    return time.thread_time_ns() + int(server.read_text(encoding="ascii").split()[0])
