"""The operator's books: the ledger's operations for the command line and the console.

Each part has the verbs of one thing: `books.keys.revoke(key_id)`. A call is one short transaction
and blocks until it is committed. What it changes is also noted as an event, under `books.actor`.

Every call may raise LedgerError when the ledger cannot be used. Besides that, reads raise NotFound
for what does not exist, and changes raise Refused or one of its kinds.

Two small parts follow. Receipts: requests, each with its account and key, and what pending ones hold.
Events: who did what, apart from requests. Extras have parts of their own, which whoever uses them makes
of the books.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from gateway.base.ids import display
from gateway.base.progress import Progress, ignore
from gateway.extension import RequestNotes, find_ledger_tables
from gateway.ledger.call_records import CallDetail, KeyLabel
from gateway.ledger.records import AuditReport, EventView, NodeView, NotFound
from gateway.ledger.sql.accounts import AccountBook
from gateway.ledger.sql.database import (
    Connection,
    Database,
    Part,
    join_parts,
    read_script,
    sum_parts,
)
from gateway.ledger.sql.entries import EntryBook
from gateway.ledger.sql.keys import KeyBook
from gateway.ledger.sql.rows import read_receipt

_SQL: Final = read_script(__file__)
_LAST_CHECKPOINT: Final = "SELECT max(created_ms) FROM checkpoints"
_LABELS: Final = """
    SELECT accounts.name, keys.id, keys.name, keys.last4
    FROM requests JOIN keys ON keys.id = key_id JOIN accounts ON accounts.id = requests.account_id
    WHERE requests.id = :id AND requests.account_id = coalesce(:account, requests.account_id)
"""
_PENDING_HOLDS: Final = (
    f"SELECT count(*), {sum_parts('hold_nano')} FROM requests WHERE state = 'pending'"  # noqa: S608
)


class Books(Database):
    """One connection to the books, for one thread at a time; a context manager."""

    def __init__(self, connection: Connection, clock: Callable[[], int]) -> None:
        super().__init__(connection, clock)
        self.accounts = AccountBook(self)
        self.keys = KeyBook(self)
        self.entries = EntryBook(self)
        self.receipts = ReceiptBook(self)
        self.events = EventBook(self)

    @abstractmethod
    def audit(self, progress: Progress = ignore) -> AuditReport:
        """Prove that balances, entries, requests and sums agree; a success is a checkpoint."""

    def list_nodes(self) -> list[NodeView]:
        """Return the processes that serve from a shared ledger; none if only one can serve."""
        return []

    def find_last_checkpoint_ms(self) -> int | None:
        """Return when a proof last covered new entries, whichever process ran it."""
        (at_ms,) = self.read_one(_LAST_CHECKPOINT, ())
        return None if at_ms is None else int(at_ms)

    @abstractmethod
    def back_up(self, target: Path, progress: Progress = ignore) -> int:
        """Write a consistent copy to a new file while others write; return its size in bytes."""

    @abstractmethod
    def measure(self) -> tuple[int, int]:
        """Return the bytes of the ledger, and of its log of recent commits."""

    @abstractmethod
    def wait_in_force(self) -> None:
        """Return once a serving process, if there is one, has applied all that is committed."""

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ReceiptBook(Part):
    def find(self, request_id: str, *, account_id: int | None = None) -> CallDetail | RequestNotes:
        """Return a request with its receipt, or what an extra knows of one that has none. Raises NotFound.

        If `account_id` is given, requests of other accounts are treated as unknown.
        """
        try:
            return self.read_detail(request_id, account_id=account_id)
        except NotFound:
            for tables in find_ledger_tables().values():
                if tables.find_refused is not None:
                    return tables.find_refused(self._database, request_id, account_id)
            raise

    def read_detail(self, request_id: str, *, account_id: int | None = None) -> CallDetail:
        """Return a request with its receipt. Those of other accounts are treated as unknown."""
        with self._database.snapshot() as connection:
            values = {"id": request_id, "account": account_id}
            labels = self._database.read_one(_LABELS, values)
            receipt = read_receipt(connection, request_id=request_id)
            told = [
                one.describe_call(self._database, request_id)
                for one in find_ledger_tables().values()
                if one.describe_call is not None
            ]
        if labels is None or receipt is None:
            raise NotFound("there is no call of that request id")
        account, key_id, key_name, last4 = labels
        key = KeyLabel(key_id, key_name, display(last4, key_id))
        return CallDetail(account, key, receipt, told)

    def measure_pending(self) -> tuple[int, int]:
        """Return how many requests are pending, and the sum of their holds in nano-units."""
        count, *parts = self._database.read_one(_PENDING_HOLDS)
        return int(count), join_parts(*parts)


class EventBook(Part):
    def find_last(self, action: str, address: str | None = None) -> EventView | None:
        """Return the last event of an action, of anybody or from an address, or None."""
        row = self._database.read_one(_SQL["last event"], {"action": action, "address": address})
        return None if row is None else EventView(*row)

    def append(self, action: str, *, target: str, detail: str, at_ms: int) -> None:
        """Note an action of a process on itself. It must not contain a secret."""
        self._database.note(action, account=None, target=target, detail=detail, at_ms=at_ms)
