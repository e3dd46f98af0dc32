"""Open and check the ledger of a location: a path leads to SQLite, an address to an extra's database.

Each function imports the modules of the database when it is called: a command uses few of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.base.progress import Progress, ignore
from gateway.base.times import unix_ms
from gateway.extension import find_databases
from gateway.ledger.base import COMMIT_SECONDS
from gateway.ledger.records import DatabaseUrl, LedgerError, Location
from gateway.ledger.sql.books import Books
from gateway.ledger.versions import VERSION

if TYPE_CHECKING:
    from gateway.ledger.serving.ledger import ServingLedger

log = logging.getLogger("gateway.ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """Databases at addresses, of which [storage] url names one, as the functions below use them."""

    schema: int
    """The schema's version."""
    read_url: Callable[[str], DatabaseUrl]
    """Reads an address. Raises ValueError with the rule; the message never repeats the address."""
    open_ledger: Callable[..., AbstractAsyncContextManager[ServingLedger]]
    check_ledger: Callable[[DatabaseUrl], bool]
    open_books: Callable[..., Books]
    find_server: Callable[[DatabaseUrl], int | None]


def require_databases() -> Databases:
    """Return the databases at addresses. Raises LedgerError if their extra is missing."""
    try:
        return find_databases()
    except ValueError as error:
        raise LedgerError(f"[storage] url {error}") from error


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
    called every ten seconds. A database keeps the requests of this month and of the `retention_months`
    - 1 before it, or all if that is 0; a file keeps all.

    Raises:
        LedgerLocked: another process serves from the file.
        LedgerMismatch: the audit failed.
        LedgerError: it cannot be used; the text says why.
    """
    if isinstance(location, Path):
        from gateway.ledger.sqlite.serving import open_sqlite

        return open_sqlite(location, clock=clock, commit_seconds=commit_seconds, tell=tell)
    return require_databases().open_ledger(
        location,
        clock=clock,
        commit_seconds=commit_seconds,
        tell=tell,
        retention_months=retention_months,
    )


def check_ledger(location: Location) -> bool:
    """Return whether a gateway on this machine serves from the database; nothing is made or changed.

    Raises:
        LedgerError: it could not be opened, or not be made; or a setting of the database can lose what
            was committed.
    """
    if isinstance(location, Path):
        from gateway.ledger.sqlite.schema import check_file

        return check_file(location)
    return require_databases().check_ledger(location)


def open_books(
    location: Location,
    *,
    create: bool = False,
    clock: Callable[[], int] = unix_ms,
    progress: Progress = ignore,
) -> Books:
    """Open the operator's books, whether or not a gateway serves; `progress` is told of an upgrade.

    Raises:
        LedgerError: there is no ledger at `location`, or it cannot be used.
    """
    if isinstance(location, Path):
        from gateway.ledger.sqlite.books import SqliteBooks

        return SqliteBooks(location, create=create, clock=clock, progress=progress)
    return require_databases().open_books(location, create=create, clock=clock, progress=progress)


def find_schema(location: Location) -> int:
    """Return the schema's version that the ledger would have after an opening; nothing is opened."""
    return VERSION if isinstance(location, Path) else require_databases().schema


def find_server(location: Location) -> int | None:
    """Return the id of the local process that serves from the ledger; None if there is none."""
    if isinstance(location, Path):
        from gateway.ledger.sqlite import files

        return files.find_server(location)
    return require_databases().find_server(location)
