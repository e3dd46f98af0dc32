"""The connection that all parts of the books share, and the statements that several use.

It is synchronous, and each change is a short transaction of its own. The command line uses it while
a server runs and the console uses it inside the server, so every change is also appended to
`changes`, for the server's memory, and to `events`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import orjson

from gateway.ledger.errors import LedgerError
from gateway.ledger.key_records import LIMITS, TermChanges
from gateway.ledger.records import CLI, AccountView, NotFound
from gateway.ledger.sqlite.files import FileWatch
from gateway.ledger.sqlite.reasons import describe
from gateway.ledger.sqlite.rows import KEY_LIVES, TERMS, TermsColumns, read_terms
from gateway.ledger.sqlite.schema import set_busy_timeout, transaction

Value = str | bytes | int | None
"""The values that our columns hold: there are no floats in the ledger."""
Values = Sequence[Value] | Mapping[str, Value]
AccountColumns = tuple[int, str, int, int, int, int, int, *TermsColumns]
"""A row of `ACCOUNT_COLUMNS`."""

_STEPS_BETWEEN_LOOKS: Final = 1_000_000
"""Steps of SQLite's virtual machine, some 10 ms. Each look takes the GIL from the event loop."""

_NOTE: Final = (
    "INSERT INTO events (at_ms, actor, action, account, target, detail, address)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)

ACCOUNT_COLUMNS: Final = f"""
    accounts.id, accounts.name, operator, suspended, balance_nano, coalesce((
        SELECT sum(hold_nano) FROM requests
        WHERE requests.account_id = accounts.id AND state = 'pending'
    ), 0), accounts.created_ms, {TERMS}
"""  # noqa: S608 - built from constants
"""The columns that `view_account` takes."""
EACH_ACCOUNT: Final = "SELECT" + ACCOUNT_COLUMNS + "FROM accounts"

KEY_WORKS: Final = f"{KEY_LIVES} AND (cap_nano IS NULL OR spent_nano < cap_nano)"
"""The condition under which `KeyView.status` is active."""


class Database:
    """Each use raises FilesLost if the database's files lost their names: it would be in vain."""

    def __init__(
        self, connection: sqlite3.Connection, files: FileWatch, clock: Callable[[], int]
    ) -> None:
        self.connection = connection
        self._files = files
        self.clock = clock
        self.actor = CLI

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._using():
            yield self.connection

    def read_rows(self, sql: str, values: Values) -> list[Any]:
        with self.reading() as connection:
            return read_rows(connection, sql, values)

    def read_number(self, sql: str, values: Values = ()) -> int:
        with self.reading() as connection:
            return int(connection.execute(sql, values).fetchone()[0])

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Read with several statements that see one state of the database."""
        with self._using():
            if self.connection.in_transaction:
                yield self.connection
                return
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            finally:
                self.connection.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction; inside another one, as a part of that."""
        with self._using():
            if self.connection.in_transaction:
                yield self.connection
                return
            with transaction(self.connection, self._files.check):
                yield self.connection

    def wait_for_others(self, milliseconds: int) -> None:
        with self._using():
            set_busy_timeout(self.connection, milliseconds)

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        self.connection.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)

    def note(
        self,
        action: str,
        *,
        account: str | None,
        target: str | None = None,
        detail: str = "",
        at_ms: int | None = None,
    ) -> None:
        """Append to `events`, in the transaction of what was done. It must not contain a secret."""
        at_ms = self.clock() if at_ms is None else at_ms
        row = (at_ms, self.actor.name, action, account, target, detail, self.actor.address)
        with self.changing() as connection:
            connection.execute(_NOTE, row)

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Check the files before and on an error, which may be due to their loss."""
        self._files.check()
        try:
            yield
        except sqlite3.Error as error:
            self._files.check()
            raise LedgerError(f"the ledger cannot be used: {describe(error)}") from error


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Value]) -> int:
    """Insert a row, return its number. Table and columns have the program's own names, never input."""
    columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
    sql = f"INSERT INTO {table} ({columns}) VALUES ({values})"  # noqa: S608
    return connection.execute(sql, row).lastrowid or 0


def append_change(
    connection: sqlite3.Connection, kind: Literal["account", "key", "budget"], id_: int | str
) -> None:
    """Tell the serving process what this transaction changes."""
    connection.execute("INSERT INTO changes (kind, id) VALUES (?, ?)", (kind, str(id_)))


def read_rows(connection: sqlite3.Connection, sql: str, values: Values) -> list[Any]:
    """Return the rows of a statement that gives them as one JSON array (see `rows`)."""
    rows: list[Any] = orjson.loads(connection.execute(sql, values).fetchone()[0])
    return rows


def read_account(connection: sqlite3.Connection, name: str) -> AccountView:
    """Raises NotFound."""
    row = connection.execute(EACH_ACCOUNT + " WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(f"there is no account '{name}'; `account list` lists them")
    return view_account(row)


def read_account_name(connection: sqlite3.Connection, account_id: int) -> str:
    """Raises NotFound."""
    row = connection.execute("SELECT name FROM accounts WHERE id = ?", (account_id,)).fetchone()
    if row is None:
        raise NotFound("there is no such account")
    return str(row[0])


def view_account(row: AccountColumns) -> AccountView:
    id_, name, operator, suspended, balance_nano, held_nano, created_ms = row[:7]
    figures = (balance_nano, held_nano, created_ms)
    return AccountView(id_, name, bool(operator), bool(suspended), *figures, read_terms(row[7:]))


def describe_changes(changes: TermChanges) -> list[str]:
    """Say what the terms are now, for an event.

    Models are only counted: events are kept for ever, and a holder may name many.
    """
    said = []
    if "models" in changes:
        models = changes["models"]
        count = "all" if models is None else len(models)
        said.append(f"{count} model{'' if count == 1 else 's'}")
    for name in LIMITS:
        if name in changes:
            limit = changes[name]
            said.append(f"{name} {'default' if limit is None else limit or 'unlimited'}")
    return said
