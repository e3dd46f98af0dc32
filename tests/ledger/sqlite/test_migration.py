"""A database of any earlier version becomes one of this version: nothing lost, nothing moved."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.admin import accounts
from gateway.ledger import LedgerError, RepeatableRequest, StoredReply
from gateway.ledger.sqlite import schema
from gateway.ledger.sqlite.files import FILE_MODE, take_lock
from gateway.ledger.sqlite.schema import MIGRATIONS, connect, read_version
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.ledger.kit import query
from tests.long.million import ACCOUNT, END_MS, History, fill_first_version

SCRIPTS = Path(schema.__file__).parent
HISTORY = History(requests=600, days=3, models=3, keys=4, models_per_key=2)
NAME_BYTES = 255
RELEASED = {
    "schema.sql": "77c10a7b62782cac",
    "console.sql": "2f87897c35665db3",
    "prices.sql": "6cbdbb2611ee627e",
    "limits.sql": "ab3715c1bf56749e",
    "observations.sql": "93a3f3d3b5ef917d",
    "calls.sql": "ea37cb2f0f3bdae0",
    "tokens.sql": "464f9f8c582d5a95",
    "failures.sql": "c782138817b4bf38",
    "budgets.sql": "513afb9367096b8d",
    "provider_costs.sql": "50bd7c711c0be04c",
    "alerts.sql": "151cb239f581e725",
}
"""The first half of the SHA-256 of each script."""
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


@pytest.fixture(params=range(1, len(MIGRATIONS)))
def landed(request: pytest.FixtureRequest, old: Path) -> Path:
    """Return a database of each version that was ever released."""
    with closing(sqlite3.connect(old)) as connection:
        for script in MIGRATIONS[1 : request.param]:
            connection.executescript((SCRIPTS / script).read_text(encoding="utf-8"))
        connection.execute(f"PRAGMA user_version = {request.param}")
    return old


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: query(path, f"SELECT {columns} FROM {table} ORDER BY rowid")
        for table, columns in KEPT.items()
    }


def migrate(path: Path) -> None:
    with closing(connect(path)) as connection:
        assert read_version(connection) == len(MIGRATIONS)


def test_nothing_is_lost(landed: Path) -> None:
    """Every row of every table with all its columns, ids and order."""
    before = dump(landed)
    assert {row[2] for row in before["entries"]} == {"credit", "charge", "correction"}
    assert {row[7] for row in before["requests"]} == {"pending", "posted", "voided"}
    migrate(landed)
    assert dump(landed) == before
    assert query(landed, "PRAGMA foreign_key_check") == []
    assert query(landed, "PRAGMA integrity_check") == [("ok",)]


def test_a_migrated_database_is_like_a_new_one(landed: Path, tmp_path: Path) -> None:
    """The same tables, columns, indexes and triggers."""
    new = tmp_path / "new.db"
    connect(new, create=True).close()
    migrate(landed)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    assert query(landed, schema) == query(new, schema)


def test_sums_are_those_of_the_old_requests(landed: Path) -> None:
    """The interrupted count as failed, the pending not at all; the audit agrees."""
    migrate(landed)
    wanted = query(
        landed, "SELECT sum(state = 'posted'), sum(state = 'voided'), sum(cost_nano) FROM requests"
    )
    for table in ("daily", "hourly"):
        sums = f"SELECT sum(requests), sum(failed), sum(cost_nano) FROM {table}"
        assert query(landed, sums) == wanted
    assert query(landed, "SELECT count(DISTINCT day) FROM daily") == [(HISTORY.days + 1,)]
    with accounts.open_books(landed) as books:
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


async def test_a_server_starts_from_it(landed: Path) -> None:
    """Requests in flight are interrupted, and count as failed on the day they were found."""
    async with SqliteLedger.open(landed, clock=lambda: END_MS + 5) as ledger:
        assert {account.name for account in ledger.accounts()} == {ACCOUNT, "idle"}
    with accounts.open_books(landed) as books:
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


def test_sessions_and_replies_outlive_the_tables_that_are_made_anew(tmp_path: Path) -> None:
    """People stay signed in, and what was sent before has no second effect."""
    path, version = tmp_path / "gateway.db", MIGRATIONS.index("tokens.sql")
    with closing(sqlite3.connect(path)) as connection:
        for script in MIGRATIONS[:version]:
            connection.executescript(Path(schema.__file__).with_name(script).read_text("utf-8"))
        connection.executescript(
            """
            INSERT INTO accounts (name, operator, suspended, balance_nano, created_ms)
            VALUES ('a', 0, 0, 0, 5);
            INSERT INTO sessions VALUES ('s', 1, zeroblob(32), 'link', 'Firefox', '::1', 1, 2, 3);
            INSERT INTO replays VALUES (1, '/route', 'key', zeroblob(32), 201, x'7b7d', 4);
            """
            f"PRAGMA user_version = {version};"
        )
    migrate(path)
    session = ("s", 1, bytes(32), "link", "Firefox", "::1", 1, 2, 3)
    assert query(path, "SELECT * FROM sessions") == [session]
    with accounts.open_books(path) as books:
        repeated = RepeatableRequest("1", "/route", "key", bytes(32))
        kept = books.replays.run_once(repeated, lambda: StoredReply(500, b""))
    assert kept == (StoredReply(201, b"{}"), True)


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


def test_the_database_is_copied_before(landed: Path) -> None:
    """The copy has the old version's name, all of its rows, and is the owner's alone."""
    (version,) = query(landed, "PRAGMA user_version")[0]
    before = dump(landed)
    steps: list[str] = []
    connect(landed, begin=steps.append).close()
    copy = landed.with_name(f"gateway.db.version-{version}")
    assert query(copy, "PRAGMA user_version") == [(version,)]
    assert dump(copy) == before
    assert stat.S_IMODE(copy.stat().st_mode) == FILE_MODE
    step = f"migrating to version {len(MIGRATIONS)} of the schema"
    assert steps == [step, f"copying the database of version {version} to {copy}", step]


def test_a_copy_overwrites_nothing(old: Path) -> None:
    """Whoever went back to the old version and upgrades again has two copies."""
    first = old.with_name("gateway.db.version-1")
    first.write_text("kept")
    migrate(old)
    assert first.read_text() == "kept"
    assert query(old.with_name("gateway.db.version-1-2"), "PRAGMA user_version") == [(1,)]


def test_without_a_copy_nothing_is_migrated(old: Path) -> None:
    """The copy's name is too long for a file here, as the disk may be full elsewhere."""
    long = old.rename(old.with_name("g" * (NAME_BYTES - len(".lock"))))
    with pytest.raises(LedgerError, match=r"it stays at version 1 .* because no copy"):
        connect(long)
    assert query(long, "PRAGMA user_version") == [(1,)]


def test_a_new_database_is_not_copied(tmp_path: Path) -> None:
    connect(tmp_path / "gateway.db", create=True).close()
    assert [path.name for path in tmp_path.iterdir()] == ["gateway.db"]


def test_released_scripts_never_change() -> None:
    """Databases that they made exist; what is new is a new script."""
    digests = {
        name: hashlib.sha256((SCRIPTS / name).read_bytes()).hexdigest()[:16] for name in RELEASED
    }
    assert digests == RELEASED
    assert tuple(RELEASED) == MIGRATIONS[: len(RELEASED)]
