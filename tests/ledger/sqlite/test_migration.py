"""A database of the version before becomes one of this version: nothing lost, nothing moved."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.files import FILE_MODE, take_lock
from gateway.ledger.sqlite.schema import VERSION, connect
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.ledger.kit import query
from tests.long.million import END_MS, History, fill_previous

OLD: Final = VERSION - 1
HISTORY: Final = History(requests=60, days=3, models=3, keys=4, models_per_key=2)
NAME_BYTES: Final = 255
STEP: Final = f"upgrading to version {VERSION} of the schema"
SCHEMA: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
MORE: Final = """
    INSERT INTO requests (id, account_id, key_id, model, provider, stream, hold_nano, price_id,
        state, outcome, attempts, input_tokens, cached_input_tokens, cache_write_tokens,
        cache_write_1h_tokens, output_tokens, cost_nano, estimated, started_ms)
    SELECT 'req_now', account_id, key_id, model, provider, stream, hold_nano, price_id, 'pending',
        'pending', 0, 0, 0, 0, 0, 0, 0, 0, started_ms FROM requests LIMIT 1;
    CREATE TABLE notes (account_id INTEGER REFERENCES accounts, said TEXT) STRICT;
    CREATE VIEW spent AS SELECT account_id, sum(cost_nano) FROM requests GROUP BY 1;
    INSERT INTO notes SELECT id, 'mine' FROM accounts LIMIT 1;
"""
"""A request in flight, and what an operator has added."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("previous") / "gateway.db"
    fill_previous(path, HISTORY)
    return path


@pytest.fixture
def old(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "gateway.db"))


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the tables that have some, by what made the table."""
    tables = query(path, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")
    found = {str(name): query(path, f"SELECT * FROM {name} ORDER BY 1") for (name,) in tables}
    return {name: rows for name, rows in found.items() if rows}


def read_version(path: Path) -> int:
    (version,) = query(path, "PRAGMA user_version")[0]
    return int(str(version))


async def test_nothing_is_lost(old: Path) -> None:
    """Every row stays, also of an operator's own table; the books add up, and a server starts."""
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(MORE)
    before, steps = dump(old), list[str]()
    connect(old, begin=steps.append).close()
    assert (read_version(old), dump(old)) == (VERSION, before)
    copy = old.with_name(f"gateway.db.version-{OLD}")
    assert (read_version(copy), dump(copy)) == (OLD, before)
    assert stat.S_IMODE(copy.stat().st_mode) == FILE_MODE
    assert steps == [STEP, f"copying the database of version {OLD} to {copy}", STEP]
    with open_books(old) as books:
        report = books.audit()
    assert (report.problems, report.pending, report.interrupted) == ((), 1, 0)
    async with SqliteLedger.open(old, clock=lambda: END_MS + 5) as ledger:
        assert len(list(ledger.accounts())) == 1
    with open_books(old) as books:
        report = books.audit()
    assert (report.problems, report.pending, report.interrupted) == ((), 0, 1)


def test_an_upgraded_database_is_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """The same tables, columns, indexes and triggers."""
    new = tmp_path / "new.db"
    connect(new, create=True).close()
    assert [path.name for path in tmp_path.iterdir() if "version" in path.name] == []
    assert query(old, SCHEMA) != query(new, SCHEMA)
    connect(old).close()
    assert query(old, SCHEMA) == query(new, SCHEMA)
    assert query(old, "PRAGMA integrity_check") == [("ok",)]


def test_an_upgrade_that_fails_changes_nothing(old: Path) -> None:
    """Whatever stands in the way: the old version goes on as it was."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE recovery_codes (theirs)")
    before = dump(old), query(old, SCHEMA)
    with pytest.raises(LedgerError, match="recovery_codes already exists"):
        connect(old)
    assert (dump(old), query(old, SCHEMA), read_version(old)) == (*before, OLD)


@pytest.mark.parametrize("version", [1, OLD - 1])
def test_an_older_version_is_refused(old: Path, version: int) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(LedgerError, match=rf"version {version} is older .* \({OLD}\); start the"):
        connect(old)
    assert read_version(old) == version
    assert not list(old.parent.glob("*.version-*"))


@pytest.mark.slow
def test_two_processes_upgrade_once(old: Path) -> None:
    """Started together, each ends with a whole database of this version."""
    script = (
        "import sys; from pathlib import Path; from gateway.ledger.sqlite.schema import connect;"
        "print('ready', flush=True); sys.stdin.readline(); connect(Path(sys.argv[1])).close()"
    )
    before = dump(old)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(old)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.readline()
    results = [racer.communicate("go\n") for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 3, results
    assert (dump(old), read_version(old)) == (before, VERSION)
    assert len(list(old.parent.glob("*.version-*"))) == 1


async def test_only_who_serves_upgrades_meanwhile(old: Path) -> None:
    """A gateway of the old version would go on without what is new."""
    serving = take_lock(old)
    try:
        with pytest.raises(LedgerError, match="of an older version serves from it"):
            open_books(old)
        assert read_version(old) == OLD
    finally:
        os.close(serving)
    async with SqliteLedger.open(old):
        open_books(old).close()
    assert read_version(old) == VERSION


def test_a_copy_overwrites_nothing(old: Path) -> None:
    """Whoever went back to the old version and upgrades again has two copies."""
    first = old.with_name(f"gateway.db.version-{OLD}")
    first.write_text("kept")
    connect(old).close()
    assert first.read_text() == "kept"
    assert read_version(old.with_name(f"gateway.db.version-{OLD}-2")) == OLD


def test_without_a_copy_nothing_is_upgraded(old: Path) -> None:
    """The copy's name is too long for a file here, as the disk may be full elsewhere."""
    long = old.rename(old.with_name("g" * (NAME_BYTES - len(".lock"))))
    with pytest.raises(LedgerError, match=rf"it stays at version {OLD} .* because no copy"):
        connect(long)
    assert read_version(long) == OLD
