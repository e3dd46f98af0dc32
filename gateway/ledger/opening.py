"""Open and check the ledger of a location: a path leads to SQLite, an address to an extra's database."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

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


class Opener(Protocol):
    """A kind of database at one location, as the functions below use it.

    It imports the database's modules when it is called: a command uses few of them.
    """

    @property
    def schema(self) -> int: ...

    def open_ledger(
        self,
        *,
        clock: Callable[[], int],
        commit_seconds: float,
        tell: Callable[[str], None],
        retention_months: int,
    ) -> AbstractAsyncContextManager[ServingLedger]: ...

    def check_ledger(self) -> bool: ...

    def open_books(
        self, *, create: bool, clock: Callable[[], int], progress: Progress
    ) -> Books: ...

    def find_server(self) -> int | None: ...


class Databases(Protocol):
    """Databases at addresses, of which [storage] url names one."""

    def read_url(self, text: str, /) -> DatabaseUrl:
        """Read an address. Raises ValueError with the rule; the message never repeats the address."""

    def make_opener(self, url: DatabaseUrl, /) -> Opener: ...


@dataclass(frozen=True, slots=True)
class _FileOpener:
    """Opens a file of SQLite."""

    path: Path

    @property
    def schema(self) -> int:
        return VERSION

    def open_ledger(
        self,
        *,
        clock: Callable[[], int],
        commit_seconds: float,
        tell: Callable[[str], None],
        retention_months: int,
    ) -> AbstractAsyncContextManager[ServingLedger]:
        from gateway.ledger.sqlite.serving import open_sqlite

        del retention_months  # a file keeps all requests
        return open_sqlite(self.path, clock=clock, commit_seconds=commit_seconds, tell=tell)

    def check_ledger(self) -> bool:
        from gateway.ledger.sqlite.schema import check_file

        return check_file(self.path)

    def open_books(self, *, create: bool, clock: Callable[[], int], progress: Progress) -> Books:
        from gateway.ledger.sqlite.books import SqliteBooks

        return SqliteBooks(self.path, create=create, clock=clock, progress=progress)

    def find_server(self) -> int | None:
        from gateway.ledger.sqlite import files

        return files.find_server(self.path)


def find_opener(location: Location) -> Opener:
    """Return the opener of a location. Raises LedgerError if the extra for addresses is missing."""
    if isinstance(location, Path):
        return _FileOpener(location)
    try:
        return find_databases().make_opener(location)
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
    return find_opener(location).open_ledger(
        clock=clock, commit_seconds=commit_seconds, tell=tell, retention_months=retention_months
    )


def check_ledger(location: Location) -> bool:
    """Return whether a gateway on this machine serves from the database; nothing is made or changed.

    Raises:
        LedgerError: it could not be opened, or not be made; or a setting of the database can lose what
            was committed.
    """
    return find_opener(location).check_ledger()


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
    return find_opener(location).open_books(create=create, clock=clock, progress=progress)


def find_schema(location: Location) -> int:
    """Return the schema's version that the ledger would have after an opening; nothing is opened."""
    return find_opener(location).schema


def find_server(location: Location) -> int | None:
    """Return the id of the local process that serves from the ledger; None if there is none."""
    return find_opener(location).find_server()
