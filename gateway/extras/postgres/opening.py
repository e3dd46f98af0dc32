"""Opens databases for `ledger.opening`, and moves ledgers for the extra `moves`.

PostgreSQL's driver may not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.base.progress import Progress
from gateway.extras.packages.install import tell_install
from gateway.extras.postgres.urls import read_url
from gateway.extras.postgres.versions import VERSION
from gateway.ledger.records import AuditReport, DatabaseUrl, LedgerError
from gateway.ledger.sql.books import Books

if TYPE_CHECKING:
    from gateway.extras.moves.ledgers import MoveRecord
    from gateway.ledger.serving.ledger import ServingLedger

__all__ = ["make_ledger", "make_opener", "read_records", "read_url"]


@contextmanager
def _need_driver() -> Iterator[None]:
    """If PostgreSQL's driver is missing, say how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise LedgerError(
            f"[storage] url needs PostgreSQL's driver: {tell_install('postgres')}"
        ) from error


@dataclass(frozen=True, slots=True)
class DatabaseOpener:
    url: str

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
        with _need_driver():
            from gateway.extras.postgres.serving import open_postgres

        return open_postgres(
            self.url,
            clock=clock,
            commit_seconds=commit_seconds,
            tell=tell,
            retention_months=retention_months,
        )

    def check_ledger(self) -> bool:
        """Also refuse settings, such as `fsync = off`, that can lose what was committed."""
        with _need_driver():
            from gateway.extras.postgres.schema import check_database

        return check_database(self.url) and self.find_server() is not None

    def open_books(self, *, create: bool, clock: Callable[[], int], progress: Progress) -> Books:
        with _need_driver():
            from gateway.extras.postgres.books import PostgresBooks

        return PostgresBooks(self.url, create=create, clock=clock, progress=progress)

    def find_server(self) -> int | None:
        with _need_driver():
            from gateway.extras.postgres import nodes

        return nodes.find_server(self.url)


def make_opener(url: DatabaseUrl) -> DatabaseOpener:
    return DatabaseOpener(url.value)


def read_records(books: Books, progress: Progress) -> tuple[int, Iterator[MoveRecord]]:
    from gateway.extras.postgres import moving

    return moving.read_records(books, progress)


def make_ledger(
    url: DatabaseUrl, version: int, records: Iterable[MoveRecord], now_ms: int, progress: Progress
) -> AuditReport:
    with _need_driver():
        from gateway.extras.postgres import moving

    return moving.make_ledger(url.value, version, records, now_ms, progress)
