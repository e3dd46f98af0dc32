"""A connection to PostgreSQL: `sql.connection.Connection` by psycopg 3.

Values of the books' statements are bound by the client, so that a NULL needs no type. No statement is
prepared, so PgBouncer may hand the connection from transaction to transaction.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import sql as composed
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import IntLoader
from psycopg.types.string import StrDumperUnknown, TextLoader

from gateway.ledger.errors import LedgerError
from gateway.ledger.locations import DatabaseUrl
from gateway.ledger.postgres.dialect import translate
from gateway.ledger.postgres.statements import Parameter, fetch_value
from gateway.ledger.sql.connection import Values

CONNECT_SECONDS: Final = 5
"""How long a connection may take to come about."""
SETTINGS: Final[Mapping[str, str | int]] = {
    "application_name": "gateway",
    "connect_timeout": CONNECT_SECONDS,
    # A server that vanished is noticed within seconds, not by the kernel's two hours.
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
"""Defaults, which the parameters of a URL override; see "Parameter Key Words" in PostgreSQL's documentation of libpq."""
BOOKS_LOCK: Final = "(4743, 0)"
"""Rounds take it shared, a change of the books alone."""
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

Cursor = psycopg.Cursor[tuple[Any, ...]]


class _TruthDumper(Dumper):
    """Truth is 0 or 1 in every column, as in SQLite."""

    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"

    def quote(self, obj: bool) -> bytes:
        return self.dump(obj)


class _TextDumper(StrDumperUnknown):
    """Replaces NUL, which PostgreSQL's text cannot have; no stored text is equal to the result."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def _make_adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(bool, _TruthDumper)
    adapters.register_dumper(str, _TextDumper)
    adapters.register_loader("numeric", IntLoader)  # sums of bigints
    adapters.register_loader("json", TextLoader)  # orjson reads them
    return adapters


_ADAPTERS: Final = _make_adapters()


class Session:
    """A connection in autocommit mode: a transaction is what is between BEGIN and COMMIT."""

    def __init__(self, driver: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.driver = driver
        self.close = driver.close

    @property
    def in_transaction(self) -> bool:
        return self.driver.info.transaction_status != TransactionStatus.IDLE

    @property
    def is_broken(self) -> bool:
        return self.driver.closed or self.driver.broken

    def execute(self, sql: str, values: Values = ()) -> Cursor:
        return self.driver.execute(_compose(sql), values)

    def executemany(self, sql: str, rows: Iterable[Values]) -> None:
        with self.driver.cursor() as cursor:
            cursor.executemany(_compose(sql), rows)

    async def fetch_value(self, statement: bytes, parameters: Sequence[Parameter]) -> bytes:
        """Run a statement on the event loop, as `statements.fetch_value` says."""
        return await fetch_value(self.driver.pgconn, statement, parameters)

    def run(self, script: str) -> None:
        """Run statements that are PostgreSQL's own, without values."""
        self.driver.execute(script.encode())

    def break_off(self) -> None:
        """Let a statement that hangs fail, called from another thread."""
        with (
            suppress(OSError, psycopg.Error),
            closing(socket.socket(fileno=os.dup(self.driver.fileno()))) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


def connect(url: str) -> Session:
    """Open a connection. Raises LedgerError."""
    try:
        settings = {**SETTINGS, **_read_own(url), "client_encoding": "UTF8"}
        conninfo = make_conninfo(url, **settings)
        return Session(
            psycopg.connect(
                conninfo,
                autocommit=True,
                prepare_threshold=None,
                cursor_factory=psycopg.ClientCursor,
                context=_ADAPTERS,
            )
        )
    except psycopg.Error as error:
        raise explain(url, error) from error


def explain(url: str, error: Exception) -> LedgerError:
    """Say what is wrong with the database; the text has no password."""
    return LedgerError(f"{DatabaseUrl(url)}: {describe(error)}")


def describe(error: Exception) -> str:
    """Return one line of what the server or the driver says, which quotes no values."""
    diagnostic = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (diagnostic or str(error)).strip().splitlines() or [type(error).__name__]
    if diagnostic:
        return lines[0]
    # The last attempt is told last; the driver's advice below it begins with a tab.
    return [line for line in lines if not line.startswith("\t")][-1]


def transaction(session: Session, wait_ms: int = 0) -> AbstractContextManager[None]:
    """Change the books: no round and no other change runs meanwhile.

    Others are waited for so long, or without an end. A pool hands the setting to nobody.
    """
    waits = f"SET LOCAL lock_timeout = {wait_ms}; " if wait_ms else ""
    return commit_at_end(session, f"{waits}SELECT pg_advisory_xact_lock{BOOKS_LOCK}")


@contextmanager
def commit_at_end(session: Session, settings: str) -> Iterator[None]:
    """Run a transaction that begins with these statements: COMMIT at the end, ROLLBACK on an error."""
    try:
        session.run(f"{BEGIN}; {settings}")
        yield
        if session.driver.info.transaction_status == TransactionStatus.INERROR:
            # COMMIT would undo all, and say nothing.
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


def _compose(sql: str) -> composed.SQL:
    return composed.SQL(translate(sql))
