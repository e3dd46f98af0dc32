"""The database file: modes, pragmas, upgrades, and the rules that SQL itself keeps."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import groupby
from pathlib import Path
from stat import S_IMODE
from typing import Final

import pytest

from gateway import extension
from gateway.extension import LedgerTables, find_ledger_tables
from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.files import FILE_MODE, take_lock
from gateway.ledger.sqlite.schema import connect, read_version
from gateway.ledger.sqlite.serving import open_sqlite
from gateway.ledger.versions import UPGRADES, VERSION
from tests import ROOT
from tests.ledger.contract.kit import admission, charge
from tests.ledger.faults import Faults
from tests.ledger.kit import Place, make_place, query, serving
from tests.support.extras import find_modules
from tests.support.rows import each_row

pytestmark = pytest.mark.usefixtures("quick_polls")

PRAGMAS = {"synchronous": 2, "foreign_keys": 1, "journal_mode": "wal"}


def read_pragmas(connection: sqlite3.Connection) -> dict[str, object]:
    names = [*PRAGMAS, "busy_timeout", "wal_autocheckpoint"]
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}


@pytest.fixture(scope="module")
def charged(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A charge of 700, a pending request, rows of extras. The tests that share it try to spoil it, and must not succeed."""
    place = make_place(tmp_path_factory.mktemp("charged"))

    async def spend() -> None:
        async with serving(place) as (ledger, key):
            await charge(ledger, key, 700)
            await ledger.wait_admitted(ledger.hold(key, admission()))

    asyncio.run(spend())
    with open_books(place.path) as books:
        for module in find_modules("rows").values():
            module.add_rows(books)
    return place


def read_modes(folder: Path) -> dict[str, int]:
    return {path.name: S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask: database, log, shared memory and lock have mode 0600."""
    async with open_sqlite(tmp_path / "gateway.db"):
        modes = read_modes(tmp_path)
    names = ("gateway.db", "gateway.db-wal", "gateway.db-shm", "gateway.db.lock")
    assert modes == dict.fromkeys(names, 0o600)


async def test_commits_are_on_the_disk_on_every_connection(place: Place, faults: Faults) -> None:
    """synchronous=FULL, foreign keys, WAL and a busy time-out, for the server and the books.

    Only the server writes the log back: SQLite before 3.51.3 may fail where two do.
    """
    async with open_sqlite(place.path, connector=faults.connect):
        served = await faults.run(read_pragmas)
    with SqliteBooks(place.path) as books:
        booked = read_pragmas(books.connection)
    assert served == PRAGMAS | {"busy_timeout": 5, "wal_autocheckpoint": 1000}
    assert booked == PRAGMAS | {"busy_timeout": 5000, "wal_autocheckpoint": 0}


def test_newer_schema_is_refused(place: Place) -> None:
    connection = sqlite3.connect(place.path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    newer = rf"gateway\.db: schema version {VERSION + 1} is newer"
    with pytest.raises(LedgerError, match=newer):
        connect(place.path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    other, text = tmp_path / "other.db", tmp_path / "text.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    text.write_text("not a database, but long enough to be looked at as one " * 10)
    with pytest.raises(LedgerError, match="another program's database"):
        connect(other)
    with pytest.raises(LedgerError, match="not a database"):
        connect(text)


@each_row("create", [False, True])
def test_unusable_path_is_named(tmp_path: Path, create: bool) -> None:
    with pytest.raises(LedgerError, match=r"nowhere/gateway\.db"):
        connect(tmp_path / "nowhere" / "gateway.db", create=create)


def test_missing_file_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        connect(tmp_path / "gateway.db")
    assert list(tmp_path.iterdir()) == []


def race_to_open(path: Path, count: int) -> None:
    """Open a database in several processes at once; each must succeed."""
    script = (
        "import sys; from pathlib import Path; from gateway.ledger.sqlite.schema import connect;"
        "print('ready', flush=True); sys.stdin.readline();"
        "connect(Path(sys.argv[1]), create=True).close()"
    )
    words = [sys.executable, "-c", script, str(path)]
    pipe = subprocess.PIPE
    racers = [
        subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(count)
    ]
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.readline()
    results = [racer.communicate("go\n") for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * count, results


@pytest.mark.slow
def test_two_processes_make_one_schema(tmp_path: Path) -> None:
    """Several first starts at once all end with a whole schema."""
    path = tmp_path / "gateway.db"
    race_to_open(path, 4)
    with closing(connect(path)) as connection:
        assert read_version(connection) == VERSION


HERE: Final = Path(__file__).parent


REFUSED: Final = (HERE / "refused.sql", *sorted(ROOT.glob("tests/extras/*/refused.sql")))


@pytest.mark.parametrize(
    "sql", [line for one in REFUSED for line in one.read_text(encoding="utf-8").splitlines()[1:]]
)
def test_sql_keeps_the_rules(charged: Place, sql: str) -> None:
    """Settled requests, charges, kinds and types cannot be wrong, whoever writes them."""
    before = dump(charged.path)
    with closing(connect(charged.path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(sql)
    assert dump(charged.path) == before


def test_the_document_has_every_table(charged: Place) -> None:
    document = (ROOT / "gateway/ledger/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*? \|", document, re.MULTILINE))))
    made = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    of_extras = {name for one in find_ledger_tables().values() for name in one.names}
    assert {name for (name,) in query(charged.path, made)} - of_extras == named - of_extras


OLD: Final = min(UPGRADES)
NAME_BYTES: Final = 255
STEP: Final = f"upgrading to version {VERSION} of the schema"
SCHEMA: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
OWN: Final = """
CREATE TABLE notes (account_id INTEGER REFERENCES accounts, said TEXT) STRICT;
CREATE VIEW spent AS SELECT account_id, sum(cost_nano) FROM requests GROUP BY 1;
INSERT INTO notes SELECT id, 'mine' FROM accounts LIMIT 1;
"""
"""Objects that an operator has added."""
NEW_COLUMNS: Final = {
    *("passwords.person", "passwords.created_ms", "passwords.signed_in_ms", "totp.person"),
    *("recovery_codes.person", "signin_links.person", "sessions.person"),
}


def restore(stored: Path, folder: Path) -> Path:
    """Make a database from a stored one."""
    path = folder / "gateway.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(stored.read_text(encoding="utf-8"))
        connection.execute("PRAGMA journal_mode = WAL")
    path.chmod(FILE_MODE)
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return restore(HERE / f"old/{OLD}.sql", tmp_path)


def list_columns(connection: sqlite3.Connection, table: str) -> str:
    """Return the columns of a table in both versions."""
    names = connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
    return ", ".join(f'"{name}"' for (name,) in names if f"{table}.{name}" not in NEW_COLUMNS)


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the tables that have some, by name; the audit looks at the sums by day."""
    tables = (
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'daily%'"
    )
    # One connection: each reads the schema of all tables when it begins.
    with closing(sqlite3.connect(path)) as connection:
        found = {
            name: connection.execute(
                f"SELECT {list_columns(connection, name)} FROM {name} ORDER BY 1"
            ).fetchall()
            for (name,) in connection.execute(tables).fetchall()
        }
    return {name: rows for name, rows in found.items() if rows}


def find_version(path: Path) -> int:
    (version,) = query(path, "PRAGMA user_version")[0]
    return int(str(version))


def read_tables(path: Path, of: Path | None = None) -> list[tuple[object, ...]]:
    """Read the schema without its comments and line breaks: a column that was added has its own.

    Old ledgers have the tables of all extras, also of those that were taken away: then only those `of` another.
    """
    known = {table for _, _, table, _ in query(of or path, SCHEMA)}
    return [
        (*names, table, "".join(re.sub("--.*", "", str(sql)).split()))
        for *names, table, sql in query(path, SCHEMA)
        if table in known
    ]


@pytest.mark.parametrize("stored", sorted((HERE / "old").glob("*.sql")), ids=lambda one: one.stem)
async def test_a_stored_ledger_of_each_version_is_upgraded(stored: Path, tmp_path: Path) -> None:
    """As the commands and a server of that version wrote it, which was killed with a request in flight.

    Every row stays, also of an operator's own table; the books add up, and a server starts.
    """
    path, new, steps = restore(stored, tmp_path), tmp_path / "new.db", list[str]()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OWN)
    before = dump(path)
    connect(path, progress=lambda step, *_: steps.append(step)).close()
    connect(new, create=True).close()
    assert (find_version(path), dump(path)) == (VERSION, before)
    assert read_tables(path, of=new) == read_tables(new)
    if stored.stem != str(VERSION):
        copy = path.with_name(f"gateway.db.version-{stored.stem}")
        assert (find_version(copy), dump(copy)) == (int(stored.stem), before)
        assert stat.S_IMODE(copy.stat().st_mode) == FILE_MODE
        copying = f"copying the database of version {stored.stem} to {copy}"
        assert [step for step, _ in groupby(steps)] == [STEP, copying, STEP]
    with open_books(path) as books:
        report = books.audit()
    assert (report.problems, report.accounts, report.pending, report.interrupted) == ((), 3, 1, 0)
    async with open_sqlite(path) as ledger:
        assert len(list(ledger.accounts())) == 3
    with open_books(path) as books:
        report = books.audit()
    assert (report.problems, report.pending, report.interrupted) == ((), 0, 1)


@pytest.mark.parametrize("name", find_ledger_tables())
def test_an_extra_is_taken_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its tables stay; a ledger that was made without it gets them when it is opened with it."""
    old, new = make_place(tmp_path).path, tmp_path / "new.db"
    with open_books(old) as books:
        for module in find_modules("rows").values():
            module.add_rows(books)
    before, whole, known = dump(old), query(old, SCHEMA), dict(find_ledger_tables())
    with monkeypatch.context() as without:
        rest = {one: tables for one, tables in known.items() if one != name}
        without.setattr("gateway.extension.find_ledger_tables", lambda: rest)
        without.setattr("gateway.ledger.sql.audit.find_ledger_tables", lambda: rest)
        for path in (old, new):
            with SqliteBooks(path, create=True) as books:
                assert books.audit().problems == ()
        assert not {(one,) for one in known[name].names} & {
            *query(new, "SELECT name FROM sqlite_schema")
        }
    before["checkpoints"] = dump(old)["checkpoints"]
    for path in (old, new):
        with SqliteBooks(path) as books:
            assert books.audit().problems == ()
        assert query(path, SCHEMA) == whole
    assert {**dump(old), "checkpoints": before["checkpoints"]} == before


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes an extra `toy` the only one, with a table of this version."""
    folder = tmp_path / "extras/toy"
    folder.mkdir(parents=True)
    (folder / "tables_from_1.sql").write_text("ALTER TABLE toys ADD COLUMN color TEXT;\n")
    monkeypatch.setattr(extension, "FOLDER", folder.parent)

    def show(version: int) -> None:
        columns = "id INTEGER PRIMARY KEY" + ", color TEXT" * (version - 1)
        (folder / "tables.sql").write_text(f"CREATE TABLE toys ({columns}) STRICT;\n")
        known = {"toy": LedgerTables(names=("toys",), version=version)}
        monkeypatch.setattr(extension, "find_ledger_tables", lambda: known)

    return show


def test_tables_of_an_extra_have_a_version_of_their_own(
    tmp_path: Path, toys: Callable[[int], None]
) -> None:
    """They are upgraded once, behind a copy; what is newer is refused, and nothing of it changes."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    toys(1)
    connect(old, create=True).close()
    toys(2)
    told: list[str] = []
    connect(old, progress=lambda step, *_: told.append(step)).close()
    connect(new, create=True).close()
    columns = "SELECT name FROM pragma_table_info('toys')"
    assert query(old, columns) == query(new, columns) == [("id",), ("color",)]
    assert [one.split()[0] for one in told] == ["upgrading", "copying", "upgrading"]
    (copy,) = tmp_path.glob("old.db.version-*")
    assert query(copy, columns) == [("id",)]
    connect(old, progress=lambda step, *_: told.append(step)).close()
    assert len(told) == 3
    toys(1)
    for path in (old, new):
        with pytest.raises(LedgerError, match='of the extra "toy" have version 2, newer'):
            connect(path)


def test_tables_of_an_extra_are_not_upgraded_under_a_server(
    tmp_path: Path, toys: Callable[[int], None]
) -> None:
    path = tmp_path / "gateway.db"
    toys(1)
    connect(path, create=True).close()
    lock = take_lock(path)
    toys(2)
    with pytest.raises(LedgerError, match="a gateway of an older version serves from it"):
        connect(path)
    os.close(lock)
    connect(path).close()
    assert query(path, "SELECT name, version FROM extra_tables") == [("toy", 2)]


def test_a_command_that_adds_tables_leaves_the_log_to_the_server(
    tmp_path: Path, toys: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large it is."""
    path = tmp_path / "gateway.db"
    monkeypatch.setattr(extension, "find_ledger_tables", dict)
    connect(path, create=True).close()
    with closing(sqlite3.connect(path)) as server:
        server.execute("PRAGMA wal_autocheckpoint = 0")
        server.execute("CREATE TABLE filler AS SELECT zeroblob(8 << 20)")
        size = path.stat().st_size
        toys(1)
        connect(path).close()
        assert not query(path, "SELECT * FROM toys")
        assert path.stat().st_size == size


def test_a_ledger_of_this_version_is_stored() -> None:
    """And of each one since 14, which are upgraded for good: `old/N.sql` is Connection.iterdump of such a file."""
    assert [one.stem for one in sorted((HERE / "old").iterdir())] == [
        str(one) for one in range(14, VERSION + 1)
    ]
    assert [*UPGRADES] == [*range(14, VERSION)]


def test_an_upgrade_that_fails_changes_nothing(old: Path) -> None:
    """Whatever stands in the way: the old version goes on as it was."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("ALTER TABLE daily_costs RENAME TO theirs")
    before = dump(old), query(old, SCHEMA)
    with pytest.raises(LedgerError, match="no such table: daily_costs"):
        connect(old)
    assert (dump(old), query(old, SCHEMA), find_version(old)) == (*before, OLD)


@each_row(
    ("version", "commits"),
    [
        (13, "028d8ca14f"),
        (12, "4840eb2c5f, 028d8ca14f"),
        (11, "b78270d790, 4840eb2c5f, 028d8ca14f"),
        (10, "ccc32dab17, b78270d790, 4840eb2c5f, 028d8ca14f"),
        (1, "ccc32dab17, b78270d790, 4840eb2c5f, 028d8ca14f"),
    ],
)
def test_an_older_version_is_refused(old: Path, version: int, commits: str) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    told = rf"version {version} is older .* \({OLD}\); start the .* in this order: {commits} \(see"
    with pytest.raises(LedgerError, match=told):
        connect(old)
    assert find_version(old) == version
    assert not list(old.parent.glob("*.version-*"))


@pytest.mark.slow
def test_two_processes_upgrade_once(old: Path) -> None:
    """Started together, each ends with a whole database of this version."""
    before = dump(old)
    race_to_open(old, 3)
    assert (dump(old), find_version(old)) == (before, VERSION)
    assert len(list(old.parent.glob("*.version-*"))) == 1


async def test_only_who_serves_upgrades_meanwhile(old: Path) -> None:
    """A gateway of the old version would go on without what is new."""
    serving = take_lock(old)
    try:
        with pytest.raises(LedgerError, match="of an older version serves from it"):
            open_books(old)
        assert find_version(old) == OLD
    finally:
        os.close(serving)
    async with open_sqlite(old):
        open_books(old).close()
    assert find_version(old) == VERSION


def test_a_copy_overwrites_nothing(old: Path) -> None:
    """Whoever went back to the old version and upgrades again has two copies."""
    first = old.with_name(f"gateway.db.version-{OLD}")
    first.write_text("kept")
    connect(old).close()
    assert first.read_text() == "kept"
    assert find_version(old.with_name(f"gateway.db.version-{OLD}-2")) == OLD


def test_without_a_copy_nothing_is_upgraded(old: Path) -> None:
    """The copy's name is too long for a file here, as the disk may be full elsewhere."""
    long = old.rename(old.with_name("g" * (NAME_BYTES - len(".lock"))))
    with pytest.raises(LedgerError, match=rf"it stays at version {OLD} .* because no copy"):
        connect(long)
    assert find_version(long) == OLD
