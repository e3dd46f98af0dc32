"""A database of version 11 becomes one of this version: nothing lost, nothing moved."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.admin import accounts
from gateway.ledger.call_records import Receipt
from gateway.ledger.records import LedgerError, RepeatableRequest, StoredReply
from gateway.ledger.sql.rows import read_receipt
from gateway.ledger.sqlite.files import FILE_MODE, take_lock
from gateway.ledger.sqlite.schema import VERSION, connect, read_version
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.money import Price, Tokens
from gateway.prices import AppliedPrice, read_price
from tests.ledger.kit import query
from tests.ledger.sqlite.version_11 import MORE
from tests.long.million import (
    ACCOUNT,
    DAILY,
    END_MS,
    HOURLY,
    PRICE,
    VERSION_11,
    History,
    fill_version_11,
)

OLD: Final = 11
VERSION_12: Final = Path(__file__).with_name("version_12.sql").read_text(encoding="utf-8")
HISTORY: Final = History(requests=600, days=3, models=3, keys=4, models_per_key=2)
NAME_BYTES: Final = 255
CHANGED: Final = {
    "keys": "id, account_id, name, digest, last4, models, requests_per_minute, tokens_per_minute,"
    " concurrency, created_ms, expires_ms, revoked_ms, replaced_by, last_used_ms, budget_id",
    "requests": "id, account_id, key_id, model, provider, stream, hold_nano, state, input_tokens,"
    " cached_input_tokens, cache_write_tokens, output_tokens, cost_nano, estimated, outcome, status,"
    " attempts, started_ms, first_byte_ms, ended_ms, cache_write_1h_tokens, budget_id,"
    " provider_cost_nano, reported_cost_nano",
}
"""The columns that both versions have, of tables that have others now. The rest has the same ones."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("version_11") / "gateway.db"
    fill_version_11(path, HISTORY)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(MORE)
        for sql in (HOURLY, DAILY):
            connection.execute(sql)
        connection.commit()
    return path


@pytest.fixture
def old(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "gateway.db"))


NEW: Final = {"prices", "totp", "recovery_codes"}
"""Tables that the old version lacks."""


def list_tables(path: Path) -> list[str]:
    made = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    return [str(name) for (name,) in query(path, made)]


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows; those of tables that have other columns now, without these."""
    return {
        table: query(path, f"SELECT {CHANGED.get(table, '*')} FROM {table} ORDER BY 1")
        for table in list_tables(path)
        if table not in NEW
    }


def migrate(path: Path) -> None:
    with closing(connect(path)) as connection:
        assert read_version(connection) == VERSION


def test_nothing_is_lost(old: Path) -> None:
    """Every row of every table with all its columns and ids."""
    before = dump(old)
    assert {row[2] for row in before["entries"]} == {"credit", "code", "charge", "correction"}
    assert {row[7] for row in before["requests"]} == {"pending", "posted", "voided"}
    migrate(old)
    assert dump(old) == before
    assert query(old, "PRAGMA foreign_key_check") == []
    assert query(old, "PRAGMA integrity_check") == [("ok",)]
    order = "SELECT id FROM requests ORDER BY rowid"
    assert query(old, order) == query(old.with_name(f"gateway.db.version-{OLD}"), order)


def test_an_upgraded_database_is_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """The same tables, columns, indexes and triggers."""
    new = tmp_path / "new.db"
    connect(new, create=True).close()
    migrate(old)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    assert query(old, schema) == query(new, schema)


def test_version_12_gets_the_tables_that_it_lacks(old: Path, tmp_path: Path) -> None:
    """A database of that version, with the rows of one that was upgraded to this."""
    migrate(old)
    between, new = tmp_path / "between.db", tmp_path / "new.db"
    connect(new, create=True).close()
    with closing(sqlite3.connect(between)) as connection:
        connection.executescript(VERSION_12)
        connection.execute("ATTACH ? AS there", (str(old),))
        for table in list_tables(between):
            connection.execute(f"INSERT INTO {table} SELECT * FROM there.{table}")
        connection.commit()
    before = dump(between)
    migrate(between)
    assert dump(between) == before
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    assert query(between, schema) == query(new, schema)
    assert query(between, "PRAGMA foreign_key_check") == []
    assert between.with_name("between.db.version-12").exists()


def read_receipts(path: Path) -> dict[str, Receipt]:
    with closing(connect(path)) as connection:
        ids = [id_ for (id_,) in connection.execute("SELECT id FROM requests")]
        found = {id_: read_receipt(connection, request_id=id_) for id_ in ids}
    return {id_: receipt for id_, receipt in found.items() if receipt is not None}


def test_receipts_tell_the_prices_and_searches_that_applied(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.row_factory = sqlite3.Row
        rows: list[Any] = connection.execute("SELECT * FROM requests").fetchall()
    migrate(old)
    receipts = read_receipts(old)
    assert len(receipts) == len(rows) == HISTORY.requests + 2
    for row in rows:
        receipt, price = receipts[row["id"]], Price(
            input=row["input_price_nano"],
            output=row["output_price_nano"],
            cached_input=row["cached_input_price_nano"],
            cache_write=row["cache_write_price_nano"],
            request=row["request_price_nano"],
            cache_write_1h=row["cache_write_1h_price_nano"],
            web_search=row["web_search_price_nano"],
        )  # fmt: skip
        assert receipt.price == AppliedPrice(price, row["price_rule"])
        searches = row["web_searches"]
        assert receipt.tool_calls == ({"web_search": searches} if searches else {})
        assert receipt.tokens == Tokens(
            row["input_tokens"],
            row["cached_input_tokens"],
            row["cache_write_tokens"],
            row["output_tokens"],
            row["cache_write_1h_tokens"],
        )
    assert sum(bool(one.price.rule) for one in receipts.values()) == 4
    assert sum(bool(one.tool_calls) for one in receipts.values()) == 1


def test_prices_are_those_that_a_gateway_would_write(old: Path) -> None:
    """By the same ids, so that the next request at a price finds it."""
    migrate(old)
    prices = query(old, "SELECT id, price FROM prices")
    assert len(prices) == 5
    for price_id, text in prices:
        applied = read_price(str(text))
        assert (applied.id, applied.text) == (price_id, text)
    assert (PRICE.id, PRICE.text) in prices


def test_rotated_keys_share_the_cap_of_the_first(old: Path) -> None:
    """Each keeps what was left for it: before, a new key had a cap of its own."""
    numbers = range(4)
    spent = [int(str(nano)) for (nano,) in query(old, "SELECT spent_nano FROM keys ORDER BY id")]
    migrate(old)
    rows = query(old, "SELECT origin_id, spent_nano, cap_nano FROM keys ORDER BY id")
    ids = [f"key_{number:012}" for number in numbers]
    assert rows == [
        (ids[0], spent[0], None),
        (ids[1], sum(spent[1:]), 5 * 10**9),
        (ids[1], 0, 3 * 10**9 + spent[1]),
        (ids[1], 0, 10**9 + spent[1] + spent[2]),
    ]
    with accounts.open_books(old) as books:
        told = {one.id: one.spent_nano for one in books.keys.read_all()}
    assert told == dict(zip(ids, [spent[0], *[sum(spent[1:])] * 3], strict=True))


def test_the_sums_add_up(old: Path) -> None:
    """The interrupted count as failed, the pending not at all; the audit agrees."""
    migrate(old)
    wanted = query(
        old, "SELECT sum(state = 'posted'), sum(state = 'voided'), sum(cost_nano) FROM requests"
    )
    for table in ("daily", "hourly"):
        sums = f"SELECT sum(requests), sum(failed), sum(cost_nano) FROM {table}"
        assert query(old, sums) == wanted
    with accounts.open_books(old) as books:
        report = books.audit()
    assert (report.problems, report.pending, report.interrupted) == ((), 1, 1)


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


def test_an_upgrade_that_fails_changes_nothing(old: Path) -> None:
    """Whatever stands in the way: the old version goes on as it was."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE before_replays (theirs)")
    before = dump(old), query(old, "SELECT sql FROM sqlite_schema")
    with pytest.raises(LedgerError, match="before_replays"):
        connect(old)
    assert (dump(old), query(old, "SELECT sql FROM sqlite_schema")) == before
    assert query(old, "PRAGMA user_version") == [(OLD,)]


def test_what_an_operator_added_stays(old: Path) -> None:
    """Its own table, a foreign key and a trigger in it; a column in ours is left, not its rows."""
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(
            "CREATE TABLE notes (account_id INTEGER REFERENCES accounts, said TEXT) STRICT;"
            "CREATE TRIGGER noted AFTER INSERT ON notes BEGIN"
            " INSERT INTO notes SELECT id, 'trigger' FROM accounts WHERE id <> new.account_id; END;"
            "CREATE VIEW spent AS SELECT account_id, sum(cost_nano) FROM requests GROUP BY 1;"
            "INSERT INTO notes SELECT id, 'mine' FROM accounts LIMIT 1;"
            "ALTER TABLE accounts ADD COLUMN crm TEXT;"
        )
    names = "SELECT id, name, balance_nano FROM accounts"
    before = [query(old, sql) for sql in (names, "SELECT * FROM notes", "SELECT * FROM spent")]
    migrate(old)
    after = [query(old, sql) for sql in (names, "SELECT * FROM notes", "SELECT * FROM spent")]
    assert after == before
    with closing(connect(old)) as connection:
        connection.execute("INSERT INTO notes SELECT min(id), 'new' FROM accounts")
        with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
            connection.execute("INSERT INTO notes VALUES (-1, 'nobody')")


def test_a_table_that_lost_a_column_stops_the_upgrade(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("ALTER TABLE replays DROP COLUMN reply")
    with pytest.raises(LedgerError, match="no such column: reply"):
        connect(old)
    assert query(old, "PRAGMA user_version") == [(OLD,)]


def test_replies_outlive_the_tables_that_are_made_anew(old: Path) -> None:
    """What was sent before has no second effect."""
    with accounts.open_books(old) as books:
        repeated = RepeatableRequest("1", "/route", "key", bytes(32))
        kept = books.replays.run_once(repeated, lambda: StoredReply(500, b""))
    assert kept == (StoredReply(201, b"{}"), True)


@pytest.mark.parametrize("version", [1, OLD - 1])
def test_an_older_version_is_refused(old: Path, version: int) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = dump(old)
    with pytest.raises(LedgerError, match=rf"version {version} is older .* \({OLD}\)"):
        connect(old)
    assert dump(old) == before
    assert not list(old.parent.glob("*.version-*"))


def test_a_database_without_rows_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_11.read_text(encoding="utf-8"))
    migrate(path)
    assert query(path, "SELECT count(*) FROM prices") == [(0,)]


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
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = [racer.communicate() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 3, results
    assert dump(old) == before
    with accounts.open_books(old) as books:
        assert books.audit().problems == ()


def test_nobody_upgrades_beneath_a_gateway_that_serves(old: Path) -> None:
    """It would go on without what is new, and the books would never agree again."""
    serving = take_lock(old)
    try:
        with pytest.raises(LedgerError, match="of an older version serves from it"):
            accounts.open_books(old)
        assert query(old, "PRAGMA user_version") == [(OLD,)]
    finally:
        os.close(serving)
    accounts.open_books(old).close()
    assert query(old, "PRAGMA user_version") == [(VERSION,)]


async def test_who_serves_upgrades(old: Path) -> None:
    async with SqliteLedger.open(old):
        accounts.open_books(old).close()
    assert query(old, "PRAGMA user_version") == [(VERSION,)]


def test_the_database_is_copied_before(old: Path) -> None:
    """The copy has the old version's name, all of its rows, and is the owner's alone."""
    before = dump(old)
    steps: list[str] = []
    connect(old, begin=steps.append).close()
    copy = old.with_name(f"gateway.db.version-{OLD}")
    assert query(copy, "PRAGMA user_version") == [(OLD,)]
    assert dump(copy) == before
    assert stat.S_IMODE(copy.stat().st_mode) == FILE_MODE
    step = f"upgrading to version {VERSION} of the schema"
    assert steps == [step, f"copying the database of version {OLD} to {copy}", step]


def test_a_copy_overwrites_nothing(old: Path) -> None:
    """Whoever went back to the old version and upgrades again has two copies."""
    first = old.with_name(f"gateway.db.version-{OLD}")
    first.write_text("kept")
    migrate(old)
    assert first.read_text() == "kept"
    assert query(old.with_name(f"gateway.db.version-{OLD}-2"), "PRAGMA user_version") == [(OLD,)]


def test_without_a_copy_nothing_is_upgraded(old: Path) -> None:
    """The copy's name is too long for a file here, as the disk may be full elsewhere."""
    long = old.rename(old.with_name("g" * (NAME_BYTES - len(".lock"))))
    with pytest.raises(LedgerError, match=rf"it stays at version {OLD} .* because no copy"):
        connect(long)
    assert query(long, "PRAGMA user_version") == [(OLD,)]


def test_a_new_database_is_not_copied(tmp_path: Path) -> None:
    connect(tmp_path / "gateway.db", create=True).close()
    assert [path.name for path in tmp_path.iterdir()] == ["gateway.db"]
