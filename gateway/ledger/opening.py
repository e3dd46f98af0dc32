"""Open, check and make the ledger of a location: a path leads to SQLite, an address to PostgreSQL.

Each database is imported only when needed: a command uses one, and PostgreSQL's driver may not be
installed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.ledger.base import COMMIT_SECONDS
from gateway.ledger.records import AuditReport, DatabaseUrl, LedgerError, Location, MoveRecord
from gateway.ledger.sql.books import Books
from gateway.times import unix_ms

if TYPE_CHECKING:
    from gateway.ledger.serving.ledger import ServingLedger

log = logging.getLogger("gateway.ledger")


@contextmanager
def _need_driver() -> Iterator[None]:
    """If PostgreSQL's driver is missing, say how to install this extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise LedgerError(
            "[storage] url needs PostgreSQL's driver: pip install 'gateway[postgres]'"
        ) from error


def open_ledger(
    location: Location,
    *,
    clock: Callable[[], int] = unix_ms,
    commit_seconds: float = COMMIT_SECONDS,
    tell: Callable[[str], None] = log.info,
    retention_months: int = 0,
) -> AbstractAsyncContextManager[ServingLedger]:
    """Open the ledger of a serving process; leaving it commits what is queued.

    Opening recovers from a crash and audits the entries since the last checkpoint. Meanwhile `tell` is
    called every few seconds. PostgreSQL keeps the requests of this month and of the `retention_months` -
    1 before it, or all if that is 0.

    Raises:
        LedgerLocked: another process serves from the file.
        LedgerMismatch: the audit failed.
        LedgerError: it cannot be used; the text says why.
    """
    opening: Callable[..., AbstractAsyncContextManager[ServingLedger]]
    match location:
        case Path():
            from gateway.ledger.sqlite.serving import open_sqlite

            opening = partial(open_sqlite, location)
        case DatabaseUrl(url):
            with _need_driver():
                from gateway.ledger.postgres.serving import open_postgres

            opening = partial(open_postgres, url, retention_months=retention_months)
    return opening(clock=clock, commit_seconds=commit_seconds, tell=tell)


def check_ledger(location: Location) -> bool:
    """Return whether a gateway on this machine serves from the database; nothing is made or changed.

    Raises:
        LedgerError: it could not be opened, or not be made; or a setting of PostgreSQL, such as
            `fsync = off`, can lose what was committed.
    """
    match location:
        case Path():
            from gateway.ledger.sqlite.schema import check_file

            return check_file(location)
        case DatabaseUrl(url):
            with _need_driver():
                from gateway.ledger.postgres.schema import check_database

            return check_database(url) and find_server(location) is not None


def open_books(
    location: Location, *, create: bool = False, clock: Callable[[], int] = unix_ms
) -> Books:
    """Open the operator's books, whether or not a gateway serves.

    Raises:
        LedgerError: there is no ledger at `location`, or it cannot be used.
    """
    match location:
        case Path():
            from gateway.ledger.sqlite.books import SqliteBooks

            return SqliteBooks(location, create=create, clock=clock)
        case DatabaseUrl(url):
            with _need_driver():
                from gateway.ledger.postgres.books import PostgresBooks

            return PostgresBooks(url, create=create, clock=clock)


def make_ledger(
    location: Location,
    version: int,
    records: Iterable[MoveRecord],
    *,
    clock: Callable[[], int] = unix_ms,
) -> AuditReport:
    """Make a new ledger from another's records of this schema version, if they add up.

    Raises:
        BadRecord: the version is unknown, or a record has no place in a ledger of it.
        LedgerError: the ledger cannot be made.
    """
    match location:
        case Path():
            from gateway.ledger.sqlite import books

            return books.make_ledger(location, version, records, clock())
        case DatabaseUrl(url):
            with _need_driver():
                from gateway.ledger.postgres import books as postgres_books

            return postgres_books.make_ledger(url, version, records, clock())


def find_server(location: Location) -> int | None:
    """Return the id of the local process that serves from the ledger; None if there is none."""
    match location:
        case Path():
            from gateway.ledger.sqlite import files

            return files.find_server(location)
        case DatabaseUrl(url):
            with _need_driver():
                from gateway.ledger.postgres import nodes

            return nodes.find_server(url)
