"""The database file: how it is made, opened and brought to the schema of this version."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from typing import Final

from gateway.ledger.base import LedgerError, LedgerLocked
from gateway.ledger.lock import FILE_MODE, take_lock

MIGRATIONS: Final = ("schema.sql", "console.sql")
"""Script n brings a database of version n to version n + 1; `PRAGMA user_version` counts them."""

OLDEST_SQLITE: Final = (3, 37, 0)
"""STRICT tables came with it."""

BUSY_MS: Final = 5000
JOURNAL_BYTES: Final = 64 * 1024 * 1024
"""To this the write-ahead log is cut back after a checkpoint."""

STATEMENTS: Final = 256
"""Prepared statements kept per connection: those of the batch come in powers of two."""

_PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",  # a commit is on the disk when it returns
    "PRAGMA foreign_keys = ON",
    f"PRAGMA journal_size_limit = {JOURNAL_BYTES}",
)
_WHAT_IS_THERE: Final = (
    "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
)
"""In one statement: another process may be making the tables just now."""


def connect(path: Path, *, create: bool = False, is_locked: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode to a database of the current schema.

    `is_locked`: the caller is who serves from it.

    Raises:
        LedgerError: the file is missing (and `create` is False), is no ledger, is of a newer
            version than this program, or of an older one and being served from.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise LedgerError(f"SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed")
    try:
        if create:
            _create_file(path)
        # mode=rw: SQLite itself must not make the file, its mode would follow the umask.
        connection = sqlite3.connect(
            path.absolute().as_uri() + "?mode=rw",
            uri=True,
            isolation_level=None,
            cached_statements=STATEMENTS,
        )
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(f"{path}: {error}") from error
    try:
        _prepare(connection, path, is_locked=is_locked)
    except sqlite3.Error as error:
        connection.close()
        raise LedgerError(f"{path}: {error}") from error
    except LedgerError:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, to a database that `connect` has prepared.

    Raises:
        LedgerError: the file cannot be opened.
    """
    try:
        connection = sqlite3.connect(
            path.absolute().as_uri() + "?mode=ro", uri=True, isolation_level=None
        )
        set_busy_timeout(connection, BUSY_MS)
    except sqlite3.Error as error:
        raise LedgerError(f"{path}: {error}") from error
    return connection


def set_busy_timeout(connection: sqlite3.Connection, busy_ms: int) -> None:
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE, and COMMIT at the end or ROLLBACK on any exception.

    A transaction that began with a read would fail at once with SQLITE_BUSY_SNAPSHOT when
    another process wrote meanwhile; no time-out helps there.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _create_file(path: Path) -> None:
    """Make an empty database file with its mode; SQLite gives -wal and -shm the same one.

    An existing file is not opened: closing it would drop the POSIX locks that another
    connection of this process has on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
    except FileExistsError:
        return


def _prepare(connection: sqlite3.Connection, path: Path, *, is_locked: bool) -> None:
    set_busy_timeout(connection, BUSY_MS)
    _check_version(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    if read_version(connection) < len(MIGRATIONS):
        _migrate(connection, path, is_locked=is_locked)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version, tables = connection.execute(_WHAT_IS_THERE).fetchone()
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"{path}: schema version {version} is newer than this gateway knows "
            f"({len(MIGRATIONS)}); run a newer gateway"
        )
    if version == 0 and tables:
        raise LedgerError(f"{path}: not a ledger, but another program's database")


def read_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _migrate(connection: sqlite3.Connection, path: Path, *, is_locked: bool) -> None:
    """Run what is missing, all of it or nothing; of two processes at once, one finds it done.

    Never beneath a gateway that serves: of an older version, it would not keep what is new.
    """
    with ExitStack() as until_committed, transaction(connection):
        version = read_version(connection)
        if 0 < version < len(MIGRATIONS) and not is_locked:
            until_committed.callback(os.close, _lock_out_servers(path))
        for script in MIGRATIONS[version:]:
            for statement in _split_statements(_read_script(script)):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _lock_out_servers(path: Path) -> int:
    try:
        return take_lock(path)
    except LedgerLocked as error:
        raise LedgerError(
            f"{path}: a gateway of an older version serves from it; restart that one first"
        ) from error


def _read_script(name: str) -> str:
    return resources.files("gateway.ledger").joinpath(name).read_text(encoding="utf-8")


def _split_statements(script: str) -> Iterator[str]:
    """The statements of a script. (`executescript` would commit the transaction it runs in.)"""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
