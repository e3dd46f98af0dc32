"""The connection of the books, as both drivers offer it, and the statements that several parts use.

The statements of this folder are written in the SQL that both databases understand. Parameters are `?`
or `:name`. Rows may come as one JSON array, by `json_group_array(json_array(...))`; a list is passed as
JSON and read by `SELECT CAST(value AS BIGINT) FROM json_each(:ids)`. Booleans are 0 or 1, and a subquery
in FROM has a name. `postgres.adapters` translates what PostgreSQL writes differently. Statements without
substitutions are in a script beside their module, such as `rows.sql`.

The books' connection is synchronous, and each change is a short transaction of its own. The command line
uses it beside the gateways that serve, and the console uses it inside one. So every change is also
appended to `changes`, for the memory of serving processes, and to `events`.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol

import orjson

from gateway.ledger.key_records import LIMITS, KeyTerms, TermChanges, Terms
from gateway.ledger.records import CLI, AccountView, NotFound, Refused

Value = str | bytes | int | None
"""The values that our columns hold: there are no floats in the ledger."""
Values = Sequence[Value] | Mapping[str, Value]
Rows = list[Any]
"""Rows as a driver gives them."""
Columns = list[list[Any]]
PART: Final = 10**9
"""Sums of amounts may exceed 64 bits, at which SQLite's `sum` fails. So each has two parts: the sum of
the amounts' whole multiples of this many nano-units, and the sum of their remainders."""
MAX_ROWS: Final = 2**62
"""A LIMIT without effect: no table has so many rows."""

TermsColumns = tuple[str | None, int | None, int | None, int | None]
"""A row of `TERMS`: the fields of `Terms`, with the models as a JSON array."""
KeyTermsColumns = tuple[*TermsColumns, str, int | None, int | None, int | None]
"""A row of `KEY_TERMS`: the fields of `KeyTerms`."""
TERMS: Final = ", ".join(f"accounts.{field.name}" for field in fields(Terms))
KEY_TERMS: Final = ", ".join(f"keys.{field.name}" for field in fields(KeyTerms))
KEY_LIVES: Final = "keys.revoked_ms IS NULL AND (keys.expires_ms IS NULL OR keys.expires_ms > :now)"
"""The condition under which `KeyView.status` is neither revoked nor expired."""

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


FOR_EXTRAS: Final = ("account", "0")
"""The row of `changes` that tells extras of a change: no account has this id, so memory ignores it."""


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    @property
    def in_transaction(self) -> bool: ...

    def close(self) -> None: ...
    def execute(self, sql: str, values: Values = ..., /) -> Cursor: ...

    def executemany(self, sql: str, rows: Iterable[Values], /) -> object: ...


def roll_back(connection: Connection) -> None:
    """Roll back, unless SQLite has done so by itself, as on a full disk: a second try would hide that error."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


Row = tuple[int | str | None, ...]
InsertRows = Callable[[Connection, str, Sequence[Row]], None]
"""Inserts rows after the VALUES of a statement; each database has its own quick way for many rows."""


_STATEMENT: Final = re.compile(r"((?:^--: .+\n)+)([^;]+);", re.MULTILINE)


def read_script(module: str, name: str = "") -> dict[str, str]:
    """Return the statements of a script by their names, in lines above that begin with `--:`.

    The script is beside a module and has its name, unless another is given.
    """
    path = Path(module).with_suffix(".sql")
    script = (path.with_name(name) if name else path).read_text(encoding="utf-8")
    return {text.strip().replace("\n--:", "")[4:]: sql for text, sql in _STATEMENT.findall(script)}


def read_number(connection: Connection, sql: str, values: Values = ()) -> int:
    """Return the number that a statement gives in its one row."""
    (number,) = connection.execute(sql, values).fetchone()
    return int(number)


def count_rows(connection: Connection, tables: Iterable[str]) -> int:
    """Count the rows of tables together, for the progress of reading them."""
    counts = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)  # noqa: S608 - its own names
    return read_number(connection, f"SELECT {counts}")


def sum_parts(column: str) -> str:
    """Write the two sums of an amount."""
    return f"coalesce(sum(({column}) / {PART}), 0), coalesce(sum(({column}) % {PART}), 0)"


def join_parts(wholes: int, rests: int) -> int:
    return int(wholes) * PART + int(rests)


@lru_cache(maxsize=256)
def write_insert(table: str, *columns: str) -> str:
    values = ", ".join(f":{name}" for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608


def read_terms(columns: TermsColumns) -> Terms:
    return _make_terms(*columns)


def read_key_terms(columns: KeyTermsColumns) -> KeyTerms:
    return KeyTerms(_read_models(columns[0]), *columns[1:])


def write_terms(terms: Terms) -> dict[str, int | str | None]:
    """Return the columns of terms by name; a model is named once."""
    # One column for each field, so a new term needs a column and nothing here.
    columns = asdict(terms)
    if terms.models is not None:
        columns["models"] = orjson.dumps(list(dict.fromkeys(terms.models))).decode()
    return columns


@lru_cache(maxsize=256)
def _make_terms(models: str | None, *limits: int | None) -> Terms:
    """Return the same object for the same terms: most accounts have no others."""
    return Terms(_read_models(models), *limits)


@lru_cache(maxsize=256)
def _read_models(column: str | None) -> tuple[str, ...] | None:
    return None if column is None else tuple(orjson.loads(column))


class Database(ABC):
    """A connection and the operations on it; each database implements the abstract ones."""

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

    def read_one(self, sql: str, values: Values = ()) -> Any:
        """Return the first row of a statement; None if there is none."""
        with self.reading() as connection:
            return connection.execute(sql, values).fetchone()

    def require_one(self, sql: str, values: Values, missing: Refused) -> Any:
        """Return the first row of a statement. Raises `missing` if there is none."""
        row = self.read_one(sql, values)
        if row is None:
            raise missing
        return row

    def fetch(self, sql: str, values: Values = ()) -> Rows:
        """Return the rows of a statement."""
        with self.reading() as connection:
            return connection.execute(sql, values).fetchall()

    def change(self, sql: str, values: Values) -> int:
        """Run a statement as a change, or as a part of one; return how many rows it changed."""
        with self.changing() as connection:
            return connection.execute(sql, values).rowcount

    def read_rows(self, sql: str, values: Values = ()) -> list[Any]:
        """Return the rows of a statement that gives them as one JSON array.

        SQLite gives up the GIL for every row, see `sqlite.statements`.
        """
        (array,) = self.read_one(sql, values)
        return orjson.loads(array) if array else []

    def read_columns(self, sql: str, values: Values = ()) -> Columns:
        """Return the columns of a statement that gives them as one JSON array of arrays.

        Thousands of rows are written and read in half the time of an array for each row.
        """
        return [column or [] for column in self.read_rows(sql, values)]

    def read_number(self, sql: str, values: Values = ()) -> int:
        return int(self.read_one(sql, values)[0])

    def insert(self, table: str, row: Mapping[str, Value]) -> None:
        """Insert a row. Table and columns have the program's own names, never input."""
        self.change(write_insert(table, *row), row)

    def insert_numbered(self, table: str, row: Mapping[str, Value]) -> int:
        """Insert a row of a table that numbers its rows; return the number."""
        with self.changing():
            return self.read_number(write_insert(table, *row) + " RETURNING id", row)

    def update(self, table: str, id_: int | str, row: Mapping[str, Value]) -> None:
        """Change columns of the row of an id, named as in `insert`."""
        columns = ", ".join(f"{name} = :{name}" for name in row)
        self.change(f"UPDATE {table} SET {columns} WHERE id = :id", {**row, "id": id_})  # noqa: S608

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
                roll_back(connection)  # it has only read

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
        account = None if account is None else self.name_account(account)
        row = (at_ms, self.actor.name, action, account, target, detail, self.actor.address)
        self.change(_NOTE, row)

    def append_change(self, kind: Literal["account", "key", "budget"], id_: int | str) -> None:
        """Tell the serving processes what this transaction changes."""
        self.change("INSERT INTO changes (kind, id) VALUES (?, ?)", (kind, str(id_)))

    def tell_extras(self) -> None:
        """Tell the extras of the serving processes that this transaction changes what they keep in memory."""
        self.change("INSERT INTO changes (kind, id) VALUES (?, ?)", FOR_EXTRAS)

    def read_account(self, name: str) -> AccountView:
        """Return an account by its name. Raises NotFound."""
        missing = NotFound(f"there is no account '{name}'; `account list` lists them")
        named = (self.name_account(name),)
        return view_account(self.require_one(EACH_ACCOUNT + " WHERE name = ?", named, missing))

    def name_account(self, name: str) -> str:
        """Return an account's name in the form of Unicode in which accounts are stored: NFC.

        An account of an earlier version may have another form, by which it is found.
        """
        composed = unicodedata.normalize("NFC", name)
        if composed == name or self.read_one("SELECT 1 FROM accounts WHERE name = ?", (name,)):
            return name
        return composed

    def read_account_name(self, account_id: int) -> str:
        """Return the name that an account has now. Raises NotFound."""
        missing = NotFound("there is no such account")
        (name,) = self.require_one("SELECT name FROM accounts WHERE id = ?", (account_id,), missing)
        return str(name)


class Part:
    """One part of the books, over the connection that all of them share."""

    def __init__(self, database: Database) -> None:
        self._database = database


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
