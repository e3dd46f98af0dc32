"""Opens a file, as `ledger.opening` asks for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.base.progress import Progress
from gateway.ledger.sql.books import Books
from gateway.ledger.versions import VERSION

if TYPE_CHECKING:
    from gateway.ledger.serving.ledger import ServingLedger


@dataclass(frozen=True, slots=True)
class FileOpener:
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
