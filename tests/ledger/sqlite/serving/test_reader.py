"""Receipts and spending on a connection beside the writer's."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gateway.errors import LedgerUnavailable
from gateway.ledger.serving.holds import make_pending_receipt, take_hold
from gateway.ledger.sqlite.serving.connections import SqliteReader
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from tests.ledger.kit import admission, charge, find_key, make_place, query


async def test_it_reads_what_is_committed_and_nothing_else(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        hold = await charge(ledger, key, 70)
        async with SqliteReader.open(place.path) as reader:
            receipt = await reader.read_receipt(hold.admission.request_id)
            assert receipt is not None
            assert (receipt.cost_nano, receipt.price.price.request) == (70, 70)
            late = ledger.hold(key, admission())
            assert await reader.read_receipt(late.admission.request_id) is None
            assert (await reader.read_spent(key, 0)).month_nano == 70


async def test_a_table_that_cannot_be_read_is_an_outage(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with open_sqlite(place.path) as ledger:
        async with SqliteReader.open(place.path) as reader:
            query(place.path, "ALTER TABLE requests RENAME TO gone")
            with pytest.raises(LedgerUnavailable) as refusal:
                await reader.read_receipt("req_1")
            assert isinstance(refusal.value.__cause__, sqlite3.Error)
            query(place.path, "ALTER TABLE gone RENAME TO requests")
            assert await reader.read_receipt("req_1") is None
        assert ledger.writable


async def test_a_pending_receipt_has_what_was_admitted(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with open_sqlite(place.path) as ledger:
        hold = take_hold(find_key(ledger, place), admission(77, stream=True))
    receipt = make_pending_receipt(hold)
    assert (receipt.state, receipt.outcome, receipt.hold_nano) == ("pending", "pending", 77)
    assert (receipt.stream, receipt.attempts, receipt.status, receipt.ended_ms) == (
        True,
        None,
        None,
        None,
    )
