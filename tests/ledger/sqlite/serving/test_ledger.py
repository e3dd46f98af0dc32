"""The ledger of a serving process: what opening it refuses, and what its calls wait for."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from gateway.errors import LedgerUnavailable
from gateway.ledger.records import LedgerError, LedgerMismatch
from gateway.ledger.serving.holds import take_hold
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from tests.ledger.kit import admission, find_key, make_place, settlement


async def test_fast_reply_is_one_commit(tmp_path: Path) -> None:
    """A row that is settled before it was written is inserted in its final state."""
    place = make_place(tmp_path)
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


async def test_a_hold_that_never_reached_the_queue_is_not_admitted(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with open_sqlite(place.path) as ledger:
        late = take_hold(find_key(ledger, place), admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.wait_admitted(late)


async def test_unusable_database_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nowhere"):
        async with open_sqlite(tmp_path / "nowhere" / "gateway.db"):
            pass
    with pytest.raises(LedgerError, match=r"gateway\.db"):
        async with open_sqlite(tmp_path / "gateway.db", create=False):
            pass
    place = make_place(tmp_path)
    with SqliteBooks(place.path) as books:
        books.connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")
    with pytest.raises(LedgerMismatch, match="account a"):
        async with open_sqlite(place.path):
            pass
