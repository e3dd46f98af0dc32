"""The write-ahead log: cut when nobody is in the way, and an alarm when it grows all the same."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.sqlite.schema import connect, connect_reader
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from gateway.ledger.sqlite.serving.store import ALARM_BYTES, LARGE_BYTES, RETRY_SECONDS, WalKeeper
from tests.ledger.faults import Faults
from tests.ledger.kit import Place, admission, charge, find_key, make_place, until


def measure(place: Place) -> int:
    return place.path.with_name("gateway.db-wal").stat().st_size


def grow(connection: sqlite3.Connection) -> None:
    """Fill the log, as a busy hour behind a long reader does, and take the pages back."""
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE ballast (x)")
    connection.execute("INSERT INTO ballast VALUES (zeroblob(?))", (LARGE_BYTES + 4096,))
    connection.execute("DROP TABLE ballast")
    connection.execute("COMMIT")


async def test_large_log_is_cut_when_nothing_is_to_do(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with open_sqlite(place.path) as ledger:
        with closing(connect(place.path)) as other:
            grow(other)
            assert measure(place) >= LARGE_BYTES
            await until(lambda: measure(place) == 0)
        await charge(ledger, find_key(ledger, place), 5)


def test_log_is_left_alone_while_small_or_busy_or_just_tried(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    now = 0.0
    with closing(connect(place.path)) as writer, closing(connect_reader(place.path)) as reader:
        keeper = WalKeeper(place.path, lambda: now)
        writer.execute("UPDATE accounts SET suspended = 1")
        keeper.look_after(writer, idle=True)
        assert measure(place) > 0
        grow(writer)
        keeper.look_after(writer, idle=False)
        assert measure(place) >= LARGE_BYTES
        writer.execute("PRAGMA busy_timeout = 5")
        reader.execute("BEGIN").execute("SELECT * FROM accounts").fetchall()
        writer.execute("UPDATE accounts SET suspended = 0")
        keeper.look_after(writer, idle=True)
        assert measure(place) >= LARGE_BYTES, "a reader is in the way"
        reader.execute("ROLLBACK")
        now = RETRY_SECONDS / 2
        keeper.look_after(writer, idle=True)
        assert measure(place) >= LARGE_BYTES, "not yet again"
        now = RETRY_SECONDS
        for _ in range(2):
            keeper.look_after(writer, idle=True)
            assert measure(place) == 0


def test_missing_log_is_none(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        WalKeeper(tmp_path / "gateway.db").look_after(connection, idle=True)


def test_alarm_sounds_once_for_every_time_it_grows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, keeper = tmp_path / "gateway.db-wal", WalKeeper(tmp_path / "gateway.db")
    log.touch()
    with closing(sqlite3.connect(":memory:")) as connection:
        for size in (0, ALARM_BYTES - 1, ALARM_BYTES, ALARM_BYTES + 1, 5, ALARM_BYTES):
            os.truncate(log, size)
            keeper.look_after(connection, idle=False)
    assert caplog.text.count("the write-ahead log has grown to 64 MiB") == 2


async def test_receipts_are_no_reader_that_lasts(tmp_path: Path) -> None:
    """After a receipt was read, the log can still be cut to nothing."""
    place, faults = make_place(tmp_path), Faults()
    async with open_sqlite(place.path, connector=faults.connect) as ledger:
        hold = await charge(ledger, find_key(ledger, place), 5)
        assert await ledger.read_receipt(hold.admission.request_id) is not None
        await faults.run_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        assert measure(place) == 0
        ledger.hold(find_key(ledger, place), admission())
