"""The operator's side of the ledger: all that may be asked and done, in one object.

Reads are in `reports`; what may be asked for is checked in `gateway.accounts`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gateway.ledger import reports
from gateway.ledger.audit import run_audit
from gateway.ledger.backup import write_backup
from gateway.ledger.base import LedgerError
from gateway.ledger.book_codes import CodeBook
from gateway.ledger.book_directory import DirectoryBook
from gateway.ledger.book_events import EventBook
from gateway.ledger.book_keys import KeyBook
from gateway.ledger.book_lists import ListBook
from gateway.ledger.book_replays import ReplayBook
from gateway.ledger.book_signins import SignInBook
from gateway.ledger.book_usage import UsageBook
from gateway.ledger.records import AuditReport, UsageRow


class Books(
    CodeBook, DirectoryBook, EventBook, KeyBook, ListBook, ReplayBook, SignInBook, UsageBook
):
    def usage(
        self, *, by: str, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> list[UsageRow]:
        """Posted requests that ended in [since, until), by day, model or key."""
        with self.reading() as connection:
            if account is not None:
                reports.read_account(connection, account)
            return reports.read_usage(connection, by, account, since_ms, until_ms)

    def audit(self) -> AuditReport:
        with self.reading() as connection:
            return run_audit(connection, full=True, now_ms=self.clock())

    def back_up(self, target: Path) -> int:
        """A consistent copy in a new file, without keeping the server from writing."""
        with self.reading() as connection:
            size = write_backup(connection, target)
        with suppress(LedgerError):  # a ledger that cannot be written is one to back up
            self.note("ledger.backup", account=None, target=target.name)
        return size
