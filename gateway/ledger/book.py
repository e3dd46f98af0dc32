"""One connection to the books: reading, changing, and the note of who changed what.

Synchronous, each change its own short transaction. Used by the CLI while the server runs and by
the console within it, so whatever is changed is also appended to `changes` and to `events`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gateway.ledger.base import LedgerError
from gateway.ledger.schema import connect, set_busy_timeout, transaction
from gateway.times import unix_ms


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: an account's name or `cli`, and from where."""

    name: str
    address: str | None = None


CLI: Final = Actor("cli")

_STEPS_BETWEEN_LOOKS: Final = 1_000_000
"""Of SQLite's machine: some 10 ms. Each look takes the GIL away from the event loop."""

_NOTE: Final = (
    "INSERT INTO events (at_ms, actor, action, account, target, detail, address)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class Book:
    """What all of the books have; a context manager. Every verb may raise LedgerError."""

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], int]) -> None:
        self._connection = connection
        self.clock = clock
        self.actor = CLI

    @classmethod
    def open(cls, path: Path, *, create: bool = False, clock: Callable[[], int] = unix_ms) -> Self:
        return cls(connect(path, create=create), clock)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with _mapped_errors():
            yield self._connection

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Reading, where several statements are to see one state of the database."""
        with _mapped_errors():
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; within another one a part of that."""
        with _mapped_errors():
            if self._connection.in_transaction:
                yield self._connection
                return
            with transaction(self._connection):
                yield self._connection

    def wait_for_others(self, milliseconds: int) -> None:
        """How long a change waits, from now on, for another connection that is changing."""
        with _mapped_errors():
            set_busy_timeout(self._connection, milliseconds)

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        """From now on, a statement that lasts fails with LedgerError once nobody waits for it.

        `is_over` is asked on this thread, and may be answered by another.
        """
        self._connection.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)

    def note(
        self, action: str, *, account: str | None, target: str | None = None, detail: str = ""
    ) -> None:
        """Append to `events`, within the transaction of what was done. No secret goes in."""
        row = (self.clock(), self.actor.name, action, account, target, detail, self.actor.address)
        with self.changing() as connection:
            connection.execute(_NOTE, row)


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(f"the ledger cannot be used: {error}") from error
