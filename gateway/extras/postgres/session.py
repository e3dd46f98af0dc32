"""A connection to PostgreSQL: `sql.database.Connection` by psycopg 3.

Values of the books' statements are bound by the client, so that a NULL needs no type. No statement is
prepared, so PgBouncer may hand the connection from transaction to transaction.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from gateway.extras.postgres.adapters import ADAPTERS, compose
from gateway.extras.postgres.statement import Parameter, fetch_value
from gateway.extras.postgres.urls import show_url
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.database import Values

CONNECT_SECONDS: Final = 5
"""Seconds for making a connection: it takes milliseconds, so a server that takes longer is not there."""
SETTINGS: Final[Mapping[str, str | int]] = {
    "application_name": "gateway",
    "connect_timeout": CONNECT_SECONDS,
    # A server that vanished is noticed within seconds, not by the kernel's two hours.
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
"""Defaults, which the parameters of a URL override; see libpq's "Parameter Key Words"."""
BOOKS_LOCK: Final = "(4743, 0)"
"""Rounds take it shared, a change of the books alone."""
QUEUE_MS: Final = 500
"""How long a change waits for rounds at a time: behind it in the queue all nodes wait."""
PAUSE_SECONDS: Final = 0.2
"""Seconds of the pause after that, in which rounds go on: requests must not wait for one change twice in a
row."""
PATIENCE_MS: Final = 10_000
"""How long a change tries by default: callers of `transaction` may give another time."""
ROW_MS: Final = 250
"""How long a change waits for a row. No round is under way then, so another program has locked the row, and
all nodes wait for the change."""
NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""The time as `DatabaseClock.listening` takes it."""
IDLE_MS: Final = 2000
"""How long a transaction may pause, before the server ends it: others wait for its locks."""
BEGIN: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED;"
    f" SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}"
)
"""Each statement sees what was committed before it, as all locks suppose, whatever the default is."""
BEGIN_SNAPSHOT: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
    " SET LOCAL work_mem = '32MB'; SET LOCAL jit = off"
)
"""Sums over a month are sorted in memory, and need no compiler. A pool hands the settings to nobody."""

_LOCKED: Final = "another program has locked what is needed, or another gateway or command; pg_stat_activity lists them"
PLAIN_WORDS: Final = (
    ("too many clients already", "all connections are in use; see max_connections in PostgreSQL"),
    ("remaining connection slots", "all connections are in use; see max_connections in PostgreSQL"),
    ("too many connections for", "all connections that this role or database may have are in use"),
    ("no more connections allowed", "all connections are in use; see max_client_conn of PgBouncer"),
    ("lock timeout", _LOCKED),
)
"""Errors of the server or a pool in plain words. Those in another language stay as they are."""

Cursor = psycopg.Cursor[tuple[Any, ...]]


class DatabaseClock:
    """The database's time in Unix milliseconds, however wrong the clock of this machine is.

    It is learned from answers that come anyway. Each one bounds it: the server wrote the time after
    the statement was sent, and before its answer came.
    """

    def __init__(self) -> None:
        self._ahead_us: int | None = None
        """How far the database's time is ahead of the monotonic clock, which is never adjusted."""

    def __call__(self) -> int:
        assert self._ahead_us is not None
        return (_read_us() + self._ahead_us) // 1000

    @contextmanager
    def listening(self) -> Iterator[list[int]]:
        """Learn from the database's time, if the body appends one to the list."""
        sent_us, told_us = _read_us(), list[int]()
        yield told_us
        for time_us in told_us:
            least_us, most_us = time_us - _read_us(), time_us - sent_us
            if self._ahead_us is None:
                self._ahead_us = (least_us + most_us) // 2
            self._ahead_us = min(max(self._ahead_us, least_us), most_us)


@lru_cache
def find_clock(url: str) -> DatabaseClock:
    """Return the clock of a database, which all connections of this process teach."""
    del url
    return DatabaseClock()


def _read_us() -> int:
    return time.monotonic_ns() // 1000


class Session:
    """A connection in autocommit mode: a transaction is what is between BEGIN and COMMIT."""

    def __init__(
        self, driver: psycopg.Connection[tuple[Any, ...]], clock: DatabaseClock | None = None
    ) -> None:
        self.driver = driver
        self.clock = clock or DatabaseClock()
        self.close = driver.close

    @property
    def in_transaction(self) -> bool:
        return self.driver.info.transaction_status != TransactionStatus.IDLE

    @property
    def is_broken(self) -> bool:
        return self.driver.closed or self.driver.broken

    def execute(self, sql: str, values: Values = ()) -> Cursor:
        return self.driver.execute(compose(sql), values)

    def executemany(self, sql: str, rows: Iterable[Values]) -> None:
        with self.driver.cursor() as cursor:
            cursor.executemany(compose(sql), rows)

    def execute_timed(self, sql: str, values: Values = ()) -> tuple[Any, ...]:
        """Return a row without its second column, which is `NOW`: the clock learns from that."""
        with self.clock.listening() as told_us:
            row = self.execute(sql, values).fetchone()
            assert row is not None
            told_us.append(row[1])
        return row[0], *row[2:]

    async def fetch_value(self, statement: bytes, parameters: Sequence[Parameter]) -> bytes:
        """Run a statement on the event loop, as `statement.fetch_value` says."""
        return await fetch_value(self.driver.pgconn, statement, parameters)

    def run(self, script: str) -> None:
        """Run statements that are PostgreSQL's own, without values."""
        self.driver.execute(script.encode())

    def break_off(self) -> None:
        """Let a statement that hangs fail, called from another thread."""
        with (
            suppress(OSError, psycopg.Error),
            # A duplicate, as closing it must leave the driver's own descriptor open.
            closing(socket.socket(fileno=os.dup(self.driver.fileno()))) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


def connect(url: str) -> Session:
    """Open a connection. Raises LedgerError."""
    try:
        # The encoding comes last, so no URL can change it: names and notes are any text.
        settings = {**SETTINGS, **_read_own(url), "client_encoding": "UTF8"}
        conninfo = make_conninfo(url, **settings)
        return Session(
            psycopg.connect(
                conninfo,
                autocommit=True,
                prepare_threshold=None,
                cursor_factory=psycopg.ClientCursor,
                context=ADAPTERS,
            ),
            find_clock(url),
        )
    except psycopg.Error as error:
        raise explain(url, error) from error


def explain(url: str, error: Exception) -> LedgerError:
    """Describe what is wrong with the database; the text has no password."""
    return LedgerError(f"{show_url(url)}: {describe(error)}")


def describe(error: Exception) -> str:
    """Return one line of what is wrong, in plain words if they are known; it quotes no values."""
    diagnostic = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (diagnostic or str(error)).strip().splitlines() or [type(error).__name__]
    # The last attempt to connect is in the last line; lines of the driver's advice begin with a tab.
    line = lines[0] if diagnostic else [line for line in lines if not line.startswith("\t")][-1]
    return next((plain for words, plain in PLAIN_WORDS if words in line), line)


@contextmanager
def transaction(session: Session, wait_ms: int = PATIENCE_MS) -> Iterator[None]:
    """Change the books: no round and no other change runs meanwhile.

    It waits for others up to `wait_ms`, for `QUEUE_MS` at a time. Its settings end with the transaction, so a
    pool hands them to nobody.
    """
    queue_ms, ends_us = min(QUEUE_MS, wait_ms), _read_us() + wait_ms * 1000
    take = (
        f"SET LOCAL lock_timeout = {queue_ms}; SELECT pg_advisory_xact_lock{BOOKS_LOCK};"
        f" SET LOCAL lock_timeout = {ROW_MS}"
    )
    while True:
        with ExitStack() as stack:
            try:
                stack.enter_context(commit_at_end(session, take))
            except errors.LockNotAvailable:
                if _read_us() >= ends_us:
                    raise
            # Not within `try`: a lock that the change
            # itself meets later is raised, not tried again.
            else:
                yield
                return
        time.sleep(PAUSE_SECONDS)


@contextmanager
def commit_at_end(session: Session, settings: str) -> Iterator[None]:
    """Run a transaction that begins with these statements: COMMIT at the end, ROLLBACK on an error."""
    try:
        session.run(f"{BEGIN}; {settings}")
        yield
        if session.driver.info.transaction_status == TransactionStatus.INERROR:
            # COMMIT would silently roll back.
            raise psycopg.errors.InFailedSqlTransaction("a statement failed: nothing is changed")
        session.run("COMMIT")
    finally:
        if not session.is_broken and session.in_transaction:
            session.run("ROLLBACK")


@contextmanager
def snapshot(session: Session) -> Iterator[None]:
    """Read with several statements that see one state of the database."""
    session.run(BEGIN_SNAPSHOT)
    try:
        yield
    finally:
        if not session.is_broken:
            session.run("ROLLBACK")


def _read_own(url: str) -> dict[str, Any]:
    """Return the settings that the URL has itself."""
    own = psycopg.conninfo.conninfo_to_dict(url)
    return {name: own[name] for name in SETTINGS if name in own}
