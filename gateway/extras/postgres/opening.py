"""Opens databases for `ledger.opening`, and moves ledgers for the extra `moves`.

PostgreSQL's driver may not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from gateway.base.progress import Progress
from gateway.extras.packages.install import tell_install
from gateway.extras.postgres.urls import read_url
from gateway.extras.postgres.versions import VERSION
from gateway.ledger.opening import Databases
from gateway.ledger.records import AuditReport, DatabaseUrl, LedgerError
from gateway.ledger.sql.books import Books

if TYPE_CHECKING:
    from gateway.extras.moves.ledgers import MoveRecord
    from gateway.ledger.serving.ledger import ServingLedger


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


def _open_ledger(
    url: DatabaseUrl,
    *,
    clock: Callable[[], int],
    commit_seconds: float,
    tell: Callable[[str], None],
    retention_months: int,
) -> AbstractAsyncContextManager[ServingLedger]:
    with _need_driver():
        from gateway.extras.postgres.serving import open_postgres

    return open_postgres(
        url.value,
        clock=clock,
        commit_seconds=commit_seconds,
        tell=tell,
        retention_months=retention_months,
    )


def _check_ledger(url: DatabaseUrl) -> bool:
    """Also refuse settings, such as `fsync = off`, that can lose what was committed."""
    with _need_driver():
        from gateway.extras.postgres.schema import check_database

    return check_database(url.value) and _find_server(url) is not None


def _open_books(
    url: DatabaseUrl, *, create: bool, clock: Callable[[], int], progress: Progress
) -> Books:
    with _need_driver():
        from gateway.extras.postgres.books import PostgresBooks

    return PostgresBooks(url.value, create=create, clock=clock, progress=progress)


def _find_server(url: DatabaseUrl) -> int | None:
    with _need_driver():
        from gateway.extras.postgres import nodes

    return nodes.find_server(url.value)


DATABASES: Final = Databases(
    schema=VERSION,
    read_url=read_url,
    open_ledger=_open_ledger,
    check_ledger=_check_ledger,
    open_books=_open_books,
    find_server=_find_server,
)


def read_records(books: Books, progress: Progress) -> tuple[int, Iterator[MoveRecord]]:
    from gateway.extras.postgres import moving

    return moving.read_records(books, progress)


def make_ledger(
    url: DatabaseUrl, version: int, records: Iterable[MoveRecord], now_ms: int, progress: Progress
) -> AuditReport:
    with _need_driver():
        from gateway.extras.postgres import moving

    return moving.make_ledger(url.value, version, records, now_ms, progress)
