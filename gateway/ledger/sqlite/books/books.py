"""The operator's books in one SQLite file: the parts, repeated requests, audit and backup."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from gateway.ledger import books as contract
from gateway.ledger import call_books, key_books, signin_books
from gateway.ledger.alert_records import Alerts
from gateway.ledger.errors import LedgerError
from gateway.ledger.observations import Observations
from gateway.ledger.records import (
    AuditReport,
    MoveRecord,
    OtherRequest,
    RepeatableRequest,
    StoredReply,
)
from gateway.ledger.sqlite.audit import run_audit
from gateway.ledger.sqlite.backup import write_backup
from gateway.ledger.sqlite.books.accounts import AccountBook
from gateway.ledger.sqlite.books.alerts import AlertBook
from gateway.ledger.sqlite.books.budgets import BudgetBook
from gateway.ledger.sqlite.books.calls import CallBook
from gateway.ledger.sqlite.books.codes import CodeBook
from gateway.ledger.sqlite.books.database import Database
from gateway.ledger.sqlite.books.entries import EntryBook
from gateway.ledger.sqlite.books.events import EventBook
from gateway.ledger.sqlite.books.keys import KeyBook
from gateway.ledger.sqlite.books.observations import ObservationBook
from gateway.ledger.sqlite.books.signins import SignInBook
from gateway.ledger.sqlite.books.tokens import TokenBook
from gateway.ledger.sqlite.books.usage import UsageBook
from gateway.ledger.sqlite.files import FileWatch, is_served
from gateway.ledger.sqlite.moving import read_records
from gateway.ledger.sqlite.schema import connect, read_version
from gateway.times import unix_ms

_FIND_REPLY: Final = (
    "SELECT request, status, reply FROM replays"
    " WHERE caller = ? AND route = ? AND idempotency_key = ?"
)
_KEEP_REPLY: Final = (
    "INSERT INTO replays (caller, route, idempotency_key, request, status, reply, created_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
IN_FORCE_SECONDS: Final = 0.5
"""A serving process looks for commits of others every quarter of a second, and takes a batch's time."""
_LAST_CHECKPOINT: Final = "SELECT max(created_ms) FROM checkpoints"


class SqliteBooks(Database):
    """Implements `gateway.ledger.books.Books`."""

    def __init__(
        self, path: Path, *, create: bool = False, clock: Callable[[], int] = unix_ms
    ) -> None:
        connection = connect(path, create=create)
        super().__init__(connection, FileWatch(path), clock)
        self._path = path
        entries = EntryBook(self)
        self.accounts: contract.Accounts = AccountBook(self)
        self.keys: key_books.Keys = KeyBook(self)
        self.budgets: key_books.Budgets = BudgetBook(self)
        self.codes: contract.Codes = CodeBook(self, entries)
        self.entries: contract.Entries = entries
        self.calls: call_books.Calls = CallBook(self)
        self.usage: call_books.UsageSums = UsageBook(self)
        self.signins: signin_books.SignIns = SignInBook(self)
        self.tokens: signin_books.Tokens = TokenBook(self)
        self.events: contract.Events = EventBook(self)
        self.observations: Observations = ObservationBook(self)
        self.alerts: Alerts = AlertBook(self)
        self.replays: contract.Replays = ReplayBook(self)

    def audit(self) -> AuditReport:
        with self.reading() as connection:
            return run_audit(connection, full=True, now_ms=self.clock())

    def find_last_checkpoint_ms(self) -> int | None:
        with self.reading() as connection:
            (at_ms,) = connection.execute(_LAST_CHECKPOINT).fetchone()
            return None if at_ms is None else int(at_ms)

    def back_up(self, target: Path) -> int:
        with self.reading() as connection:
            size = write_backup(connection, target)
        with suppress(LedgerError):  # a ledger that cannot be written needs a backup most
            self.note("ledger.backup", account=None, target=target.name)
        return size

    def read_records(self) -> tuple[int, Iterator[MoveRecord]]:
        with self.reading() as connection:
            return read_version(connection), read_records(connection)

    def measure(self) -> tuple[int, int]:
        return _measure(self._path), _measure(self._path.with_name(self._path.name + "-wal"))

    def wait_in_force(self) -> None:
        if is_served(self._path):
            time.sleep(IN_FORCE_SECONDS)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ReplayBook:
    def __init__(self, database: Database) -> None:
        self._database = database

    def run_once(
        self, repeatable: RepeatableRequest, do: Callable[[], StoredReply]
    ) -> tuple[StoredReply, bool]:
        where = (repeatable.caller, repeatable.route, repeatable.idempotency_key)
        with self._database.changing() as connection:
            row = connection.execute(_FIND_REPLY, where).fetchone()
            if row is not None:
                request, status, reply = row
                if request != repeatable.request:
                    raise OtherRequest("this Idempotency-Key was used before, for another request")
                return StoredReply(status, reply), True
            kept = do()
            connection.execute(
                _KEEP_REPLY,
                (*where, repeatable.request, kept.status, kept.reply, self._database.clock()),
            )
            return kept, False


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
