"""The database file: created, opened, and upgraded to the schema of this version.

Extras may add tables: `extras/NAME/tables.sql` makes them, `tables_from_N.sql` upgrades them from version N.
Their versions are kept in `extra_tables`. A ledger keeps the tables of an extra that was removed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

from gateway import extension
from gateway.base.progress import Progress, ignore
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.database import read_number
from gateway.ledger.sqlite import faults, files, upgrades
from gateway.ledger.sqlite.statements import transaction
from gateway.ledger.versions import UPGRADES, VERSION, refuse_old

OLDEST_SQLITE: Final = (3, 37, 0)
"""The first version with STRICT tables."""

BUSY_MS: Final = 5000
"""How long a command waits for another process's transaction; each is short, so more is a hang."""
JOURNAL_BYTES: Final = 64 * 1024 * 1024
"""The write-ahead log is cut back to this after a checkpoint: eight times its usual size."""

STATEMENTS: Final = 256
"""Prepared statements kept per connection; a batch has one for each power of two."""

_PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",  # a commit is on the disk when it returns
    # SQLite checks them only on connections that ask for it.
    "PRAGMA foreign_keys = ON",
    f"PRAGMA journal_size_limit = {JOURNAL_BYTES}",
)
_WHAT_IS_THERE: Final = (
    "SELECT user_version, (SELECT count(*) FROM sqlite_schema), (SELECT count(*) FROM sqlite_schema"
    " WHERE name IN ('accounts', 'entries', 'requests')) FROM pragma_user_version"
)
"""One statement, because another process may be creating the tables at this moment."""
_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table'"
_VERSIONS: Final = "SELECT name, version FROM extra_tables"
_MAKE_VERSIONS: Final = "CREATE TABLE IF NOT EXISTS extra_tables (name TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT"
_NOTE_VERSION: Final = "INSERT INTO extra_tables VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version"
OLDEST_TABLES: Final = 3
"""Tables among those that `_WHAT_IS_THERE` counts, which every version of the schema has."""


def connect(
    path: Path, *, create: bool = False, is_locked: bool = False, progress: Progress = ignore
) -> sqlite3.Connection:
    """Open a connection in autocommit mode to a database of the current schema.

    An older database is upgraded, after a copy of it was written beside it. `is_locked` says that
    the caller has the lock of the serving process. `progress` is told of the copy and the
    upgrade.

    Raises:
        FilesLost: a gateway serves from files that lost these names.
        LedgerError: the file is missing and `create` is False, or should not be; it is no ledger;
            its version is newer than this program's, or too old; or it is older, and a gateway
            serves from it or no copy can be written.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise LedgerError(f"SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed")
    with ExitStack() as until_ready:
        try:
            connection = _open(path, create=create)
            # A connection that stayed open would keep the log and its locks.
            until_ready.callback(connection.close)
            if not is_locked:
                # Before 3.51.3 SQLite may damage a database if two connections write its log back at the
                # same moment (sqlite.org/wal.html#walresetbug). So only the one that serves does.
                connection.execute("PRAGMA wal_autocheckpoint = 0")
            if _prepare(connection, path) < VERSION or _find_stale(connection, path):
                _upgrade(connection, path, is_locked=is_locked, progress=progress)
            else:
                upgrades.forget_killed(path)
        except (OSError, sqlite3.Error) as error:
            raise upgrades.explain(path, error) from error
        until_ready.pop_all()
    return connection


def connect_empty(path: Path) -> sqlite3.Connection:
    """Open a connection to a new database without tables. Raises LedgerError, OSError, sqlite3.Error."""
    connection = _open(path, create=True)
    _prepare(connection, path)
    return connection


def _open(path: Path, *, create: bool) -> sqlite3.Connection:
    files.check_served(path)
    if create or path.exists():
        files.check_absence(path)
    if create:
        _create_file(path)
    files.check_names(path)
    # mode=rw: SQLite itself must not make the file, its mode would follow the umask.
    return sqlite3.connect(
        find_address(path, "rw"), uri=True, isolation_level=None, cached_statements=STATEMENTS
    )


def find_address(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def check_file(path: Path) -> bool:
    """Check that the file can be used; return whether a gateway serves from it. Raises LedgerError."""
    if obstacle := faults.find_access_obstacle(path):
        raise LedgerError(f"{path}: {obstacle}")
    files.check_absence(path)
    if not path.exists():
        return False
    try:
        with closing(_open(path, create=False)) as connection:
            set_busy_timeout(connection, BUSY_MS)
            _check_version(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise faults.explain(path, error) from error
    if upgrade := upgrades.describe_upgrade(path):
        raise LedgerError(f"{path}: {upgrade}")
    return files.is_served(path)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a read-only connection to a database that `connect` has prepared.

    Raises:
        LedgerError: the file cannot be opened.
    """
    try:
        connection = sqlite3.connect(find_address(path, "ro"), uri=True, isolation_level=None)
        set_busy_timeout(connection, BUSY_MS)
    except sqlite3.Error as error:
        raise faults.explain(path, error) from error
    return connection


def set_busy_timeout(connection: sqlite3.Connection, busy_ms: int) -> None:
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")


def _create_file(path: Path) -> None:
    """Create an empty database file; SQLite gives -wal and -shm the same mode.

    An existing file is not opened: closing it would drop the POSIX locks that another connection
    of this process has on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, files.FILE_MODE))
    except FileExistsError:
        return


def _prepare(connection: sqlite3.Connection, path: Path) -> int:
    """Check and set up the connection; return the version of the schema."""
    # The time-out comes first: another process may be making the tables at this moment.
    set_busy_timeout(connection, BUSY_MS)
    # The check comes before the first write, which would change another program's database.
    _check_version(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return read_version(connection)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version, things, tables = connection.execute(_WHAT_IS_THERE).fetchone()
    # An empty file does not belong to another program: `_create_file` has just made it.
    if (things or version) and tables != OLDEST_TABLES:
        raise LedgerError(
            f"{path}: not a ledger, but another program's database; name another file as [storage]"
            " path"
        )
    if 0 < version < min(UPGRADES):
        raise LedgerError(f"{path}: {refuse_old(version)}")
    if version > VERSION:
        raise LedgerError(
            f"{path}: schema version {version} is newer than this gateway knows "
            f"({VERSION}); run a newer gateway, or restore the"
            " backup from before its upgrade"
        )


def read_version(connection: sqlite3.Connection) -> int:
    return read_number(connection, "PRAGMA user_version")


def _upgrade(
    connection: sqlite3.Connection, path: Path, *, is_locked: bool, progress: Progress
) -> None:
    """Copy the database and upgrade it to this version, in one transaction; make the tables of new extras.

    A second process then finds it done. No gateway may be serving where a copy is made: it would be of an
    older version and would not write the new columns.
    """
    step = f"upgrading to version {VERSION} of the schema"
    # Told before the transaction, which may wait for another program's.
    if _is_old(connection, path):
        progress(step)
    with ExitStack() as until_committed, transaction(connection):
        # Read again: another process may have made or upgraded the tables before this transaction.
        version = read_version(connection)
        if version == 0:
            make_tables(connection)
            return
        if _is_old(connection, path):
            if not is_locked:
                until_committed.callback(os.close, upgrades.lock_out_servers(path))
            # Behind the lock and inside the transaction: nothing is written between copy and upgrade.
            upgrades.copy_aside(path, version, connect_reader, progress)
            progress(step)
        for older in range(version, VERSION):
            script = Path(__file__).with_name(UPGRADES[older])
            _run_script(connection, script, partial(progress, step))
        connection.execute(f"PRAGMA user_version = {VERSION}")
        _add_extras(connection, path)
    # Behind the lock: whoever waits for the end of the upgrade finds the lock free.
    upgrades.forget(path)


def _is_old(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether there are tables to upgrade, or none yet, not just those of an extra to be added."""
    stale = _find_stale(connection, path)
    return read_version(connection) < VERSION or any(found for _, _, found in stale)


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of this version, those of extras among them, inside the caller's transaction."""
    _run_script(connection, Path(__file__).with_name("schema.sql"))
    # The version is a part of the transaction, so a crash leaves no tables without it.
    connection.execute(f"PRAGMA user_version = {VERSION}")
    _add_extras(connection, Path())


def _find_stale(
    connection: sqlite3.Connection, path: Path
) -> list[tuple[str, extension.LedgerTables, int]]:
    """Find the extras whose tables are missing (version 0) or older. Raises LedgerError for newer ones."""
    names = {name for (name,) in connection.execute(_TABLES)}
    # Tables of version 1 have no row: every database before extras has them.
    noted = dict(connection.execute(_VERSIONS)) if "extra_tables" in names else {}
    stale = []
    for extra, tables in extension.find_ledger_tables().items():
        found = noted.get(extra, int(tables.names[0] in names))
        if found > tables.version:
            raise LedgerError(
                f'{path}: its tables of the extra "{extra}" have version {found}, newer than this'
                f" gateway knows ({tables.version}); run a newer gateway"
            )
        if found < tables.version:
            stale.append((extra, tables, found))
    return stale


def _add_extras(connection: sqlite3.Connection, path: Path) -> None:
    """Make or upgrade the tables of extras, inside the caller's transaction."""
    for extra, tables, found in _find_stale(connection, path):
        names = [f"tables_from_{older}.sql" for older in range(found, tables.version)]
        for name in names if found else ["tables.sql"]:
            _run_script(connection, extension.FOLDER.joinpath(extra, name))
        if tables.version > 1:
            connection.execute(_MAKE_VERSIONS)
            connection.execute(_NOTE_VERSION, (extra, tables.version))


def _run_script(
    connection: sqlite3.Connection, script: Path, tell: Callable[..., object] = ignore
) -> None:
    statements = [*_split_statements(script.read_text(encoding="utf-8"))]
    for number, statement in enumerate(statements):
        tell(number, len(statements), "statements")
        connection.execute(statement)


def _split_statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
