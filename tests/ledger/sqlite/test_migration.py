"""A database of the first version becomes one of this version: nothing lost, nothing moved."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.admin import accounts
from gateway.ledger import LedgerError
from gateway.ledger.sqlite.files import take_lock
from gateway.ledger.sqlite.schema import MIGRATIONS, connect, read_version
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.ledger.kit import query
from tests.long.million import ACCOUNT, END_MS, History, fill_first_version

HISTORY = History(requests=600, days=3, models=3, keys=4, models_per_key=2)
INTERRUPTED = "'req_cut'"
MORE = f"""
    INSERT INTO accounts (name, operator, suspended, balance_nano, created_ms)
    VALUES ('idle', 1, 1, 7, 5);
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, idempotency_key,
        note, created_ms) VALUES (2, 'credit', 7, 7, 'paid-1', 'cash', 6);
    INSERT INTO requests
    SELECT {INTERRUPTED}, account_id, key_id, model, provider, stream, hold_nano, 'voided',
        0, 0, 0, 0, 150, 75, 150, 600, 0, 0, 0, 'interrupted', NULL, 0, started_ms, NULL, ended_ms
    FROM requests WHERE state = 'posted' LIMIT 1;
    INSERT INTO requests
    SELECT 'req_now', account_id, key_id, model, provider, stream, hold_nano, 'pending',
        0, 0, 0, 0, 150, 75, 150, 600, 0, 0, 0, 'pending', NULL, 0, started_ms, NULL, NULL
    FROM requests WHERE state = 'posted' LIMIT 1;
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id, note,
        created_ms)
    SELECT id, 'correction', -5, balance_nano - 5, {INTERRUPTED}, 'it was delivered', 9
    FROM accounts WHERE id = 1;
    UPDATE accounts SET balance_nano = balance_nano - 5 WHERE id = 1;
    UPDATE keys SET models = '["vendor/model-00"]', cap_nano = 5, expires_ms = 6, revoked_ms = 7,
        replaced_by = 'key_000000000002', concurrency = 0 WHERE id = 'key_000000000001';
    INSERT INTO changes (kind, id) VALUES ('account', '1');
    INSERT INTO checkpoints (entry_id, created_ms) VALUES (3, 4);
"""
"""Rows that a plain history lacks: an idempotent entry, crashed and pending requests, a spent key."""

REQUEST_COLUMNS = (
    *("id", "account_id", "key_id", "model", "provider", "stream", "hold_nano", "state"),
    *("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens"),
    *("input_price_nano", "cached_input_price_nano", "cache_write_price_nano"),
    *("output_price_nano", "request_price_nano", "cost_nano", "estimated", "outcome", "status"),
    *("attempts", "started_ms", "first_byte_ms", "ended_ms"),
)
KEPT = {
    "accounts": "id, name, operator, suspended, balance_nano, created_ms",
    "keys": "id, account_id, name, digest, last4, models, requests_per_minute, tokens_per_minute,"
    " concurrency, cap_nano, spent_nano, created_ms, expires_ms, revoked_ms, replaced_by",
    "requests": ", ".join(REQUEST_COLUMNS),
    "entries": "*",
    "changes": "*",
    "checkpoints": "*",
}


@pytest.fixture(scope="module")
def first_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "gateway.db"
    fill_first_version(path, HISTORY)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(MORE)
    return path


@pytest.fixture
def old(first_version: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(first_version, tmp_path / "gateway.db"))


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: query(path, f"SELECT {columns} FROM {table} ORDER BY rowid")
        for table, columns in KEPT.items()
    }


def migrate(path: Path) -> None:
    with closing(connect(path)) as connection:
        assert read_version(connection) == len(MIGRATIONS)


def test_nothing_is_lost(old: Path) -> None:
    """Every row of every table with all its columns, ids and order."""
    before = dump(old)
    assert {row[2] for row in before["entries"]} == {"credit", "charge", "correction"}
    assert {row[7] for row in before["requests"]} == {"pending", "posted", "voided"}
    migrate(old)
    assert dump(old) == before
    assert query(old, "PRAGMA foreign_key_check") == []
    assert query(old, "PRAGMA integrity_check") == [("ok",)]


def test_a_migrated_database_is_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """The same tables, columns, indexes and triggers."""
    new = tmp_path / "new.db"
    connect(new, create=True).close()
    migrate(old)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    assert query(old, schema) == query(new, schema)


def test_sums_are_those_of_the_old_requests(old: Path) -> None:
    """The interrupted count as failed, the pending not at all; the audit agrees."""
    migrate(old)
    wanted = query(
        old, "SELECT sum(state = 'posted'), sum(state = 'voided'), sum(cost_nano) FROM requests"
    )
    for table in ("daily", "hourly"):
        sums = f"SELECT sum(requests), sum(failed), sum(cost_nano) FROM {table}"
        assert query(old, sums) == wanted
    assert query(old, "SELECT count(DISTINCT day) FROM daily") == [(HISTORY.days + 1,)]
    with accounts.open_books(old) as books:
        report = books.audit()
    assert (report.problems, report.pending, report.interrupted) == ((), 1, 1)


def test_keys_know_when_they_were_last_used(old: Path) -> None:
    migrate(old)
    used = query(old, "SELECT id, last_used_ms FROM keys ORDER BY id")
    assert used == query(
        old,
        "SELECT keys.id, max(ended_ms) FROM keys LEFT JOIN requests ON key_id = keys.id"
        " AND state = 'posted' GROUP BY keys.id ORDER BY keys.id",
    )


@pytest.mark.parametrize("sql", ["UPDATE entries SET note = 'x'", "DELETE FROM entries"])
def test_entries_stay_append_only(old: Path, sql: str) -> None:
    with closing(connect(old)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
            connection.execute(sql)
        with pytest.raises(sqlite3.IntegrityError, match="settled once"):
            connection.execute("UPDATE requests SET attempts = 9 WHERE state = 'posted'")


def test_what_was_unique_stays_so(old: Path) -> None:
    migrate(old)
    with accounts.open_books(old) as books:
        again = accounts.credit(books, "idle", 7, note="cash", idempotency_key="paid-1")
        assert again.created_ms == 6, "the old entry"
        new = accounts.credit(books, ACCOUNT, 1)
        assert query(old, f"SELECT max(id) FROM entries WHERE id < {new.id}") == [(new.id - 1,)]
    charge = (
        "INSERT INTO entries SELECT id + 100000, 1, kind, amount_nano, 0, request_id, NULL, '', 1"
    )
    with (
        closing(connect(old)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(f"{charge} FROM entries WHERE kind = 'charge' LIMIT 1")


async def test_a_server_starts_from_it(old: Path) -> None:
    """Requests in flight are interrupted, and count as failed on the day they were found."""
    async with SqliteLedger.open(old, clock=lambda: END_MS + 5) as ledger:
        assert {account.name for account in ledger.accounts()} == {ACCOUNT, "idle"}
    with accounts.open_books(old) as books:
        report = books.audit()
    assert (report.problems, report.pending, report.interrupted) == ((), 0, 2)


def test_a_migration_that_fails_changes_nothing(old: Path) -> None:
    """Whatever stands in the way: the old version goes on as it was."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE replays (theirs)")
    before = dump(old), query(old, "SELECT sql FROM sqlite_schema")
    with pytest.raises(LedgerError, match="replays already exists"):
        connect(old)
    assert (dump(old), query(old, "SELECT sql FROM sqlite_schema")) == before
    assert query(old, "PRAGMA user_version") == [(1,)]


def test_two_processes_migrate_once(old: Path) -> None:
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
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = [racer.communicate() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 3, results
    assert dump(old) == before
    with accounts.open_books(old) as books:
        assert books.audit().problems == ()


def test_nobody_migrates_beneath_a_gateway_that_serves(old: Path) -> None:
    """It would go on without the sums by hour and day, and the books would never agree again."""
    serving = take_lock(old)
    try:
        with pytest.raises(LedgerError, match="of an older version serves from it"):
            accounts.open_books(old)
        assert query(old, "PRAGMA user_version") == [(1,)]
    finally:
        os.close(serving)
    accounts.open_books(old).close()
    assert query(old, "PRAGMA user_version") == [(len(MIGRATIONS),)]


async def test_who_serves_migrates(old: Path) -> None:
    async with SqliteLedger.open(old):
        accounts.open_books(old).close()
    assert query(old, "PRAGMA user_version") == [(len(MIGRATIONS),)]
