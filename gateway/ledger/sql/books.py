"""The operator's books: the ledger's operations for the command line and the console.

Each part has the verbs of one thing: `books.keys.revoke(key_id)`. A call is one short transaction
and blocks until it is committed. What it changes is also noted as an event, under `books.actor`.

Every call may raise LedgerError when the ledger cannot be used. Besides that, reads raise NotFound
for what does not exist, and changes raise Refused or one of its kinds.

Extras have parts of their own, which whoever uses them makes of the books.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from gateway.base.progress import Progress, ignore
from gateway.ledger.records import AuditReport, EventView, NodeView
from gateway.ledger.sql.accounts import AccountBook
from gateway.ledger.sql.database import Connection, Database, join_parts, sum_parts
from gateway.ledger.sql.entries import EntryBook
from gateway.ledger.sql.keys import KeyBook

_LAST_EVENT: Final = """
    SELECT id, at_ms, actor, action, account, target, detail, address FROM events
    WHERE action = :action AND (:address IS NULL OR address = :address)
    ORDER BY id DESC LIMIT 1
"""
_LAST_CHECKPOINT: Final = "SELECT max(created_ms) FROM checkpoints"
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

    def find_last_event(self, action: str, address: str | None = None) -> EventView | None:
        """Return the last event of an action, of anybody or from an address, or None."""
        row = self.read_one(_LAST_EVENT, {"action": action, "address": address})
        return None if row is None else EventView(*row)

    def measure_pending(self) -> tuple[int, int]:
        """Return how many requests are pending, and the sum of their holds in nano-units."""
        count, *parts = self.read_one(_PENDING_HOLDS)
        return int(count), join_parts(*parts)

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
