"""A commit that neither works nor fails: a disk that is frozen, not full."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from gateway.errors import LedgerUnavailable
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.ledger.sqlite.serving.thread import run_on_thread
from tests.ledger.kit import admission, assert_sound, find_key, make_place, settlement, until

SHORT_SECONDS = 0.2


async def test_a_hanging_commit_holds_up_nobody_else(tmp_path: Path) -> None:
    """New holds are refused, whoever waits behind it is told, and what was under way is charged."""
    place = make_place(tmp_path)
    thaw = threading.Event()

    def freeze(_: sqlite3.Connection) -> None:
        thaw.wait()

    async with SqliteLedger.open(place.path, commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, place)
        frozen = asyncio.gather(run_on_thread(ledger._writer._database, freeze))
        under_way = ledger.hold(key, admission())
        charged = ledger.settle(under_way, settlement(700))
        await asyncio.sleep(0)
        await until(lambda: not ledger.writable)
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
        assert not charged.done(), "its end is not known, so nobody may be told one"
        thaw.set()
        await frozen
        await charged
        await until(lambda: ledger.writable)
        assert key.account.held_nano == 0
        assert key.account.balance_nano == 10**12 - 700
    assert_sound(place.path)
