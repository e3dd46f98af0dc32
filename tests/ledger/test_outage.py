"""What makes SQLite's commits fail: no page left, a lock, a broken disk, a bug in the writer."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import LedgerUnavailable
from gateway.ledger import Account, Hold, Key, KeyTerms
from gateway.ledger.sqlite.batch import Item
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.ledger.sqlite.serving.thread import Report, poll_and_commit
from gateway.ledger.sqlite.serving.writer import RETRY_SECONDS
from tests.ledger.kit import (
    Place,
    admission,
    assert_sound,
    charge,
    find_key,
    make_place,
    query,
    run_sql,
    settlement,
    until,
)

CREDIT = 10**12
SHORT_SECONDS = 0.3
"""In place of the five seconds that a caller waits for a commit."""

FILL = "PRAGMA max_page_count = 1"
"""SQLite takes the present size instead, so the next page is a real SQLITE_FULL."""
MAKE_ROOM = "PRAGMA max_page_count = 1000000"
BREAK = "PRAGMA query_only = ON"
MEND = "PRAGMA query_only = OFF"


async def fill_last_page(ledger: SqliteLedger, key: Key) -> None:
    """Charge until the database has no page left to write to."""
    while ledger.writable:
        hold = ledger.hold(key, admission(1))
        done, _ = await asyncio.wait((ledger.settle(hold, settlement(1)),), timeout=0.05)
        if not done:
            break


async def test_a_full_database_is_an_outage_that_ends_by_itself(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        await run_sql(ledger, FILL)
        await fill_last_page(ledger, key)
        await until(lambda: not ledger.writable)
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
        await run_sql(ledger, MAKE_ROOM)
        await until(lambda: ledger.writable)
        await charge(ledger, key, 5)
    assert_sound(place.path)


async def test_lock_of_another_process_is_an_outage_only_while_it_lasts(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(connect(place.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            hold = ledger.hold(key, admission())
            future = ledger.settle(hold, settlement(9))
            await until(lambda: not ledger.writable)
            assert not future.done()
            other.execute("ROLLBACK")
        await future
        assert ledger.writable
        assert key.account.balance_nano == CREDIT - 9


async def test_short_lock_of_another_process_is_no_outage(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(connect(place.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            future = ledger.settle(ledger.hold(key, admission()), settlement(9))
            with pytest.raises(TimeoutError):
                await until(lambda: not ledger.writable, 0.1)
            assert not future.done()
            other.execute("ROLLBACK")
        await future


async def test_broken_disk_is_tried_now_and_then(tmp_path: Path) -> None:
    """Some times a second, so that it is noticed at once when it is back; not all the time."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    tries = 0

    def count_tries() -> int:
        nonlocal tries
        tries += 1
        return tries

    async with SqliteLedger.open(place.path, clock=count_tries) as ledger:
        key = find_key(ledger, place)
        await run_sql(ledger, BREAK)
        ledger.hold(key, admission(1))
        await until(lambda: not ledger.writable)
        before, begun = tries, time.monotonic()
        await until(lambda: tries > before + 2)
        assert tries - before <= 2 + (time.monotonic() - begun) / RETRY_SECONDS
        await run_sql(ledger, MEND)


async def test_end_during_an_outage_gives_up_in_time(tmp_path: Path) -> None:
    """Closing waits for the ledger as long as a caller would; then whoever waits is told."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path, commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, place)
        await run_sql(ledger, BREAK)
        hold = ledger.hold(key, admission(stream=True))
        future = ledger.settle(hold, settlement(5))
    assert isinstance(future.exception(), LedgerUnavailable)
    assert query(place.path, "SELECT count(*) FROM requests") == [(0,)]


async def test_a_writer_that_fails_leaves_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug of ours in the writer: whoever waits is told, nobody spends, and it is in the log."""

    def fail() -> int:
        raise RuntimeError("a bug")

    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission())
        ledger._writer._clock = fail
        with pytest.raises(LedgerUnavailable):
            await ledger.settle(hold, settlement(5))
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
    assert "task ledger-writer failed" in caplog.text


class FailingConnection(sqlite3.Connection):
    """Fails at the n-th statement as a dying disk does; afterwards works again."""

    fail_at = 0
    statements = 0

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        self.statements += 1
        if self.statements == self.fail_at:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
            raise error
        return super().execute(sql, values)


def hop_failing_at(place: Place, items: list[Item], statement: int) -> tuple[Report, Report]:
    """The reports of a hop whose n-th statement fails, and of the next one, which works."""
    with closing(
        sqlite3.connect(place.path, factory=FailingConnection, isolation_level=None)
    ) as connection:
        connection.fail_at = statement
        first = poll_and_commit(connection, None, items, 1)
        rest = [item for item in items if item not in first.done]
        return first, poll_and_commit(connection, None, rest, 1)


def test_failure_at_any_statement_commits_all_or_nothing(tmp_path: Path) -> None:
    """However far a batch got: tried again it is whole, and charged once."""
    for statement in range(1, 10):
        folder = tmp_path / str(statement)
        folder.mkdir()
        place = make_place(folder, credit_nano=CREDIT)
        items = [Item(hold, insert=True, settlement=settlement(5)) for hold in make_holds(place)]
        first, second = hop_failing_at(place, items, statement)
        assert first.refused == second.refused == []
        assert (first.unavailable is None) == bool(first.done), f"statement {statement}"
        assert len(first.done) + len(second.done) == 3
        assert query(place.path, "SELECT balance_nano FROM accounts") == [(CREDIT - 15,)]
        assert_sound(place.path)


def make_holds(place: Place) -> list[Hold]:
    account = Account(1, "a", suspended=False, balance_nano=CREDIT)
    key = Key(place.key_id, account, KeyTerms())
    return [Hold(admission(), account, key, 1000) for _ in range(3)]
