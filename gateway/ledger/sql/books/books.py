"""The operator's books: what the command line and the console ask of a ledger.

Each part has the verbs of one thing: `books.keys.revoke(key_id)`. A call is one short transaction
and blocks until it is committed. What it changes is also noted as an event, under `books.actor`.

Every call may raise LedgerError when the ledger cannot be used. Besides that, reads raise NotFound
for what does not exist, and changes raise Refused or one of its kinds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from gateway.ledger.records import AuditReport, MoveRecord, NodeView
from gateway.ledger.sql.books.accounts import AccountBook
from gateway.ledger.sql.books.alerts import AlertBook
from gateway.ledger.sql.books.budgets import BudgetBook
from gateway.ledger.sql.books.calls import CallBook
from gateway.ledger.sql.books.credentials import TokenBook, TotpBook
from gateway.ledger.sql.books.database import Database
from gateway.ledger.sql.books.entries import CodeBook, EntryBook
from gateway.ledger.sql.books.events import EventBook, ReplayBook
from gateway.ledger.sql.books.keys import KeyBook
from gateway.ledger.sql.books.observations import ObservationBook
from gateway.ledger.sql.books.signins import SignInBook
from gateway.ledger.sql.books.usage import UsageBook
from gateway.ledger.sql.connection import Connection

_LAST_CHECKPOINT: Final = "SELECT max(created_ms) FROM checkpoints"


class Books(Database):
    """One connection to the books, for one thread at a time; a context manager."""

    def __init__(self, connection: Connection, clock: Callable[[], int]) -> None:
        super().__init__(connection, clock)
        self.accounts = AccountBook(self)
        self.keys = KeyBook(self)
        self.budgets = BudgetBook(self)
        self.entries = EntryBook(self)
        self.codes = CodeBook(self, self.entries)
        self.calls = CallBook(self)
        self.usage = UsageBook(self)
        self.signins = SignInBook(self)
        self.totp = TotpBook(self)
        self.tokens = TokenBook(self)
        self.events = EventBook(self)
        self.observations = ObservationBook(self)
        self.alerts = AlertBook(self)
        self.replays = ReplayBook(self)

    @abstractmethod
    def audit(self) -> AuditReport:
        """Prove that balances, entries, requests and sums agree; a success is a checkpoint."""

    def list_nodes(self) -> list[NodeView]:
        """Return the processes that serve from a shared ledger; none if only one can serve."""
        return []

    def find_last_checkpoint_ms(self) -> int | None:
        """Return when a proof last covered new entries, whichever process ran it."""
        (at_ms,) = self.read_one(_LAST_CHECKPOINT, ())
        return None if at_ms is None else int(at_ms)

    @abstractmethod
    def back_up(self, target: Path) -> int:
        """Write a consistent copy to a new file while others write; return its size in bytes."""

    @abstractmethod
    def read_records(self) -> tuple[int, Iterator[MoveRecord]]:
        """Return the schema's version and all rows that move; read them within a `snapshot`."""

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
