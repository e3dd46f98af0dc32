"""The connection that all parts of the books share, and the statements that several use.

It is synchronous, and each change is a short transaction of its own. The command line uses it
beside the gateways that serve, and the console uses it inside one. So every change is also appended
to `changes`, for the memory of serving processes, and to `events`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Final, Literal

from gateway.ledger.key_records import LIMITS, TermChanges
from gateway.ledger.records import CLI, AccountView, NotFound
from gateway.ledger.sql.connection import Connection, Values, read_rows
from gateway.ledger.sql.rows import KEY_LIVES, TERMS, TermsColumns, read_terms

AccountColumns = tuple[int, str, int, int, int, int, int, *TermsColumns]
"""A row of `ACCOUNT_COLUMNS`."""

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

KEY_WORKS: Final = f"""
    {KEY_LIVES} AND (cap_nano IS NULL OR cap_nano > (
        SELECT origins.spent_nano FROM keys AS origins WHERE origins.id = keys.origin_id
    ))
"""  # noqa: S608 - built from constants
"""The condition under which `KeyView.status` is active."""


class Database(ABC):
    """A connection and how it is used; each database says so in its own way."""

    _BEGIN_SNAPSHOT: ClassVar[str]
    """The statement that begins a transaction whose statements all see one state."""

    def __init__(self, connection: Connection, clock: Callable[[], int]) -> None:
        self.connection = connection
        self.clock = clock
        self.actor = CLI

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Use the connection; raises LedgerError for its failures."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction beside which no other changes the books; commit it at the end."""

    @abstractmethod
    def wait_for_others(self, milliseconds: int) -> None:
        """Set how long a change waits for the transactions of others."""

    @abstractmethod
    def give_up_when(self, is_over: Callable[[], bool]) -> None: ...

    def read_one(self, sql: str, values: Values) -> Any:
        """Return the first row of a statement; None if there is none."""
        with self.reading() as connection:
            return connection.execute(sql, values).fetchone()

    def read_rows(self, sql: str, values: Values) -> list[Any]:
        """Return the rows of a statement that gives them as one JSON array."""
        with self.reading() as connection:
            return read_rows(connection, sql, values)

    def read_number(self, sql: str, values: Values = ()) -> int:
        return int(self.read_one(sql, values)[0])

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Read with several statements that see one state of the database."""
        with self.reading() as connection:
            # Within a change it reads what the change has written.
            if connection.in_transaction:
                yield connection
                return
            self._begin_snapshot()
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")  # it has only read

    def _begin_snapshot(self) -> None:
        self.connection.execute(self._BEGIN_SNAPSHOT)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Write in one transaction; inside another one, as a part of that."""
        with self.reading() as connection:
            if connection.in_transaction:
                yield connection
                return
            with self._transaction():
                yield connection

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


class Part:
    """One part of the books, over the connection that all of them share."""

    def __init__(self, database: Database) -> None:
        self._database = database


def append_change(
    connection: Connection, kind: Literal["account", "key", "budget"], id_: int | str
) -> None:
    """Tell the serving processes what this transaction changes."""
    connection.execute("INSERT INTO changes (kind, id) VALUES (?, ?)", (kind, str(id_)))


def read_account(connection: Connection, name: str) -> AccountView:
    """Raises NotFound."""
    row = connection.execute(EACH_ACCOUNT + " WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(f"there is no account '{name}'; `account list` lists them")
    return view_account(row)


def read_account_name(connection: Connection, account_id: int) -> str:
    """Raises NotFound."""
    row = connection.execute("SELECT name FROM accounts WHERE id = ?", (account_id,)).fetchone()
    if row is None:
        raise NotFound("there is no such account")
    return str(row[0])


def view_account(row: AccountColumns) -> AccountView:
    return AccountView(*row[:2], bool(row[2]), bool(row[3]), *row[4:7], read_terms(row[7:]))


def describe_changes(changes: TermChanges) -> list[str]:
    """Say what the terms are now, for an event.

    Models are only counted: events are kept for ever, and a holder may name many.
    """
    said = []
    if "models" in changes:
        models = changes["models"]
        count = "all" if models is None else len(set(models))
        said.append(f"{count} model{'' if count == 1 else 's'}")
    for name in LIMITS:
        if name in changes:
            limit = changes[name]
            said.append(f"{name} {'default' if limit is None else limit or 'unlimited'}")
    return said
