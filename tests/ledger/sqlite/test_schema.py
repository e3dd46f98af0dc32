"""The database file: modes, pragmas, versions, and the rules that SQL itself keeps."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest

from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.schema import VERSION, connect, read_version
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests import ROOT
from tests.ledger.faults import Faults
from tests.ledger.kit import Place, admission, charge, find_key, make_place, query
from tests.support.rows import each_row

PRAGMAS = {"synchronous": 2, "foreign_keys": 1, "journal_mode": "wal"}


def read_pragmas(connection: sqlite3.Connection) -> dict[str, object]:
    names = [*PRAGMAS, "busy_timeout"]
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}


@pytest.fixture(scope="module")
def charged(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A charge of 700 and a pending request. The tests that share it try to spoil it, and must not succeed."""
    place = make_place(tmp_path_factory.mktemp("charged"))

    async def spend() -> None:
        async with SqliteLedger.open(place.path) as ledger:
            key = find_key(ledger, place)
            await charge(ledger, key, 700)
            await ledger.wait_admitted(ledger.hold(key, admission()))

    asyncio.run(spend())
    return place


def read_modes(folder: Path) -> dict[str, int]:
    return {path.name: S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask: database, log, shared memory and lock have mode 0600."""
    async with SqliteLedger.open(tmp_path / "gateway.db"):
        modes = read_modes(tmp_path)
    names = ("gateway.db", "gateway.db-wal", "gateway.db-shm", "gateway.db.lock")
    assert modes == dict.fromkeys(names, 0o600)


async def test_commits_are_on_the_disk_on_every_connection(tmp_path: Path) -> None:
    """synchronous=FULL, foreign keys, WAL and a busy time-out, for the server and the books."""
    place, faults = make_place(tmp_path), Faults()
    async with SqliteLedger.open(place.path, connector=faults.connect):
        served = await faults.run(read_pragmas)
    with SqliteBooks(place.path) as books:
        booked = read_pragmas(books.connection)
    assert served == PRAGMAS | {"busy_timeout": 5}
    assert booked == PRAGMAS | {"busy_timeout": 5000}


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    place = make_place(tmp_path)
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


def test_two_processes_make_one_schema(tmp_path: Path) -> None:
    """Several first starts at once all end with a whole schema."""
    script = (
        "import sys; from pathlib import Path; from gateway.ledger.sqlite.schema import connect;"
        "print('ready', flush=True); sys.stdin.readline();"
        "connect(Path(sys.argv[1]), create=True).close()"
    )
    path = tmp_path / "gateway.db"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.readline()
    results = [racer.communicate("go\n") for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4, results
    connection = connect(path)
    assert read_version(connection) == VERSION
    connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entries SET amount_nano = 0",
        "UPDATE entries SET note = 'x' WHERE id = 1",
        "DELETE FROM entries",
        "DELETE FROM entries WHERE id = 1",
    ],
)
def test_entries_are_append_only(charged: Place, sql: str) -> None:
    connection = connect(charged.path)
    with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
        connection.execute(sql)
    connection.close()


ENTRY = (
    "INSERT INTO entries (kind, amount_nano, request_id, account_id, balance_after_nano,"
    " created_ms) VALUES"
)
POSTED_ID = "(SELECT id FROM requests WHERE cost_nano)"
ENDED = "outcome = 'shutdown', status = 500, ended_ms = 1"


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE requests SET outcome = 'interrupted' WHERE state = 'posted'",
        "UPDATE requests SET state = 'voided', cost_nano = 0 WHERE state = 'posted'",
        f"UPDATE requests SET state = 'voided', {ENDED}, cost_nano = 5 WHERE ended_ms IS NULL",
        "UPDATE requests SET state = 'voided', status = 500, ended_ms = 1 WHERE ended_ms IS NULL",
        "UPDATE requests SET state = 'voided', outcome = 'shutdown', ended_ms = 1 WHERE ended_ms IS NULL",
        "UPDATE requests SET state = 'voided', outcome = 'shutdown', status = 500 WHERE ended_ms IS NULL",
        "UPDATE requests SET outcome = 'shutdown' WHERE ended_ms IS NULL",
        f"UPDATE requests SET state = 'lost', {ENDED} WHERE ended_ms IS NULL",
        "UPDATE requests SET cost_nano = 5 WHERE ended_ms IS NULL",
        "DELETE FROM requests",
        "UPDATE accounts SET balance_nano = 1.5",
        "UPDATE accounts SET balance_nano = 'much'",
        "UPDATE keys SET spent_nano = -1",
        "UPDATE keys SET digest = x'00'",
        "DELETE FROM accounts",
        f"{ENTRY} ('charge', -700, {POSTED_ID}, 1, 0, 1)",  # a second one
        f"{ENTRY} ('charge', 1, {POSTED_ID}, 1, 0, 1)",
        f"{ENTRY} ('charge', -1, NULL, 1, 0, 1)",
        f"{ENTRY} ('credit', -1, NULL, 1, 0, 1)",
        f"{ENTRY} ('correction', 5, NULL, 1, 0, 1)",
        f"{ENTRY} ('gift', 5, NULL, 1, 0, 1)",
    ],
)
def test_sql_keeps_the_rules(charged: Place, sql: str) -> None:
    """Settled requests, charges, kinds and types cannot be wrong, whoever writes them."""
    before = query(charged.path, "SELECT * FROM requests, entries, accounts, keys")
    connection = connect(charged.path)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(sql)
    connection.close()
    assert query(charged.path, "SELECT * FROM requests, entries, accounts, keys") == before


LOOKUPS = (
    """
    UPDATE requests SET attempts = new.column2 FROM (VALUES ('x', 1), (NULL, NULL)) AS new
    WHERE requests.id = new.column1 AND requests.state = 'pending'
    """,
    """
    UPDATE accounts SET balance_nano = new.column2 FROM (VALUES (1, 1), (2, 2)) AS new
    WHERE accounts.id = new.column1
    """,
    "SELECT id FROM keys WHERE id IN (VALUES ('x'), (NULL))",
    "SELECT sum(hold_nano) FROM requests WHERE account_id = 1 AND state = 'pending'",
    "SELECT id FROM entries WHERE account_id = 1 ORDER BY id DESC LIMIT 10",
)


def test_lookups_use_their_indexes(charged: Place) -> None:
    """Settling a request and finding its account scan no table, however long the history."""
    connection = connect(charged.path)
    for sql in LOOKUPS:
        plan = " | ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}"))
        for table in ("requests", "accounts", "keys", "entries"):
            assert f"SCAN {table}" not in plan, plan
    connection.close()


def test_the_document_has_every_table(charged: Place) -> None:
    document = (ROOT / "gateway/ledger/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*? \|", document, re.MULTILINE))))
    made = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    assert {name for (name,) in query(charged.path, made)} <= named
