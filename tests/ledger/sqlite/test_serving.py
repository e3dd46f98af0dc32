"""The ledger of a serving process: its start, recovery, connections, and what its calls wait for."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.memory import take_hold
from gateway.ledger.sqlite.polls import ChangeFeed
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import (
    CACHE_KIB,
    SqliteReader,
    interrupt_pending,
    open_sqlite,
    recover_and_read,
)
from gateway.ledger.sqlite.thread import ConnectionThread
from tests.ledger.contract.kit import admission, charge, settlement
from tests.ledger.kit import Place, find_key, make_place, query, serving


async def test_fast_reply_is_one_commit(place: Place) -> None:
    """A row that is settled before it was written is inserted in its final state."""
    async with open_sqlite(place.path) as ledger:
        hold = ledger.hold(find_key(ledger, place), admission())
        await asyncio.sleep(0)
        future = ledger.settle(hold, settlement(5))
        assert not hold.recorded
        await future
        assert hold.recorded
        await ledger.wait_admitted(hold)


async def test_the_garbage_collector_rests_while_the_ledger_is_read(tmp_path: Path) -> None:
    """It would go over all keys again and again, as they come."""
    rested: list[bool] = []

    def clock() -> int:
        rested.append(not gc.isenabled())
        return 1

    async with open_sqlite(make_place(tmp_path).path, clock=clock):
        assert gc.isenabled()
    assert rested[0]


async def test_the_writer_keeps_few_pages_in_memory(tmp_path: Path) -> None:
    """The kept pages are resident for good, and most are never needed again."""
    path = make_place(tmp_path).path
    read = partial(recover_and_read, feed=ChangeFeed(), path=path, now_ms=1, progress=print)
    async with ConnectionThread.open(partial(connect, path)) as thread:
        await thread.run(read)
        (kib,) = await thread.run(lambda one: one.execute("PRAGMA cache_size").fetchone())
    assert kib == -CACHE_KIB


async def test_a_hold_that_never_reached_the_queue_is_not_admitted(place: Place) -> None:
    async with open_sqlite(place.path) as ledger:
        late = take_hold(find_key(ledger, place), admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.wait_admitted(late)


async def test_a_change_of_a_key_leaves_what_it_has_spent(place: Place) -> None:
    """Its row lacks what was charged since the last fold."""
    async with serving(place) as (ledger, key):
        await charge(ledger, key, 5)
        with closing(sqlite3.connect(place.path)) as other, other:
            other.execute("UPDATE keys SET name = 'new'")
            other.execute("INSERT INTO changes (kind, id) VALUES ('key', ?)", (key.id,))
        await charge(ledger, key, 6)
        assert (await ledger.read_spent(key, 0)).month_nano == 11
        await ledger.refresh()
        assert (key.terms.name, key.spent_nano) == ("new", 11)


async def test_charges_that_a_crash_left_out_of_the_sums_are_added_at_the_start(
    tmp_path: Path,
) -> None:
    place, copy = make_place(tmp_path), tmp_path / "copy.db"
    async with open_sqlite(place.path) as ledger:
        for cost_nano in (5, 6):
            await charge(ledger, find_key(ledger, place), cost_nano)
        for end in ("", "-wal"):
            shutil.copyfile(f"{place.path}{end}", f"{copy}{end}")
    async with open_sqlite(copy) as ledger:
        assert next(iter(ledger.accounts())).balance_nano == 10**12 - 11
        assert query(copy, "SELECT sum(cost_nano), sum(spent_nano) FROM daily, keys") == [(11, 11)]


CREDIT = 10**12
HOLD = 1000
BOOKS = "SELECT * FROM requests ORDER BY id", "SELECT * FROM entries", "SELECT * FROM accounts"


async def crash(folder: Path, pending: int) -> Place:
    """A database as a kill leaves it: one posted request, one voided, `pending` in flight."""
    place = make_place(folder, credit_nano=CREDIT)
    async with serving(place) as (ledger, key):
        await charge(ledger, key, 70)
        await ledger.settle(ledger.hold(key, admission()), settlement(0, outcome="caller_left"))
        holds = [ledger.hold(key, admission(HOLD)) for _ in range(pending)]
        for hold in holds:
            await ledger.wait_admitted(hold)
    return place


def read_books(place: Place) -> list[list[tuple[object, ...]]]:
    return [query(place.path, sql) for sql in BOOKS]


async def start(place: Place, now_ms: int = 1_700_000_100_000) -> None:
    async with open_sqlite(place.path, clock=lambda: now_ms) as ledger:
        assert find_key(ledger, place).account.held_nano == 0


async def test_a_crash_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second start finds nothing, changes no row and says nothing."""
    place = await crash(tmp_path, 3)
    await start(place)
    assert caplog.text.count("in flight when the gateway last died: 3") == 1
    after, log = read_books(place), caplog.text
    await start(place, now_ms=1_700_000_200_000)
    assert (read_books(place), caplog.text) == (after, log)


async def test_10_000_are_recovered_and_the_latest_100_listed(tmp_path: Path) -> None:
    place = await crash(tmp_path, 1)
    with closing(connect(place.path)) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(requests)")][1:]
        database.execute(
            f"INSERT INTO requests (id, {', '.join(columns)})"
            f" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
            f" SELECT printf('req_%028d', i), {', '.join(columns)}"
            " FROM n, (SELECT * FROM requests WHERE state = 'pending')"
        )
    await start(place)
    with open_books(place.path) as books:
        report = books.audit()
    assert (len(report.to_settle), report.unsettled, report.interrupted) == (100, 10_000, 10_000)


async def test_kill_at_any_moment_of_recovery_changes_nothing(tmp_path: Path) -> None:
    """A copy taken between any two steps of a start recovers to the same books."""
    place = await crash(tmp_path, 3)
    copies = list[tuple[str, Place]]()

    def copy(statement: str) -> None:
        folder = tmp_path / str(len(copies))
        folder.mkdir()
        for path in tmp_path.glob("gateway.db*"):
            if not path.name.endswith((".lock", "-shm")):
                shutil.copyfile(path, folder / path.name)
        copies.append((statement, replace(place, path=folder / "gateway.db")))

    with closing(connect(place.path)) as database:
        database.set_trace_callback(copy)
        assert interrupt_pending(database, 1_700_000_100_000) == 3
        database.set_trace_callback(None)
    await start(place)
    expected = read_books(place)
    assert (copies[0][0], copies[-1][0]) == ("BEGIN IMMEDIATE", "COMMIT")
    for statement, one in copies:
        await start(one)
        assert read_books(one) == expected, statement


async def test_a_table_that_cannot_be_read_is_an_outage(place: Place) -> None:
    async with open_sqlite(place.path) as ledger:
        async with SqliteReader.open(place.path) as reader:
            query(place.path, "ALTER TABLE requests RENAME TO gone")
            with pytest.raises(LedgerUnavailable) as refusal:
                await reader.read_receipt("req_1")
            assert isinstance(refusal.value.__cause__, sqlite3.Error)
            query(place.path, "ALTER TABLE gone RENAME TO requests")
            assert await reader.read_receipt("req_1") is None
        assert ledger.writable


async def test_a_reader_needs_a_file(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"gateway\.db"):
        async with SqliteReader.open(tmp_path / "nowhere" / "gateway.db"):
            pass
    for thread in threading.enumerate():  # aiosqlite's tells this loop that it has ended
        if "_connection_worker_thread" in thread.name:
            await asyncio.to_thread(thread.join, 10)
