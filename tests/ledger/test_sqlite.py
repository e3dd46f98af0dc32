"""The writer: its batches, bad items in them, and rows that others changed."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import InternalError, LedgerUnavailable
from gateway.ledger import LedgerError, LedgerMismatch, Settlement
from gateway.ledger.sqlite.batch import MAX_ITEMS, Item, NotPendingError, commit_requests
from gateway.ledger.sqlite.books.books import SqliteBooks
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import writer
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.ledger.sqlite.serving.memory import take_hold
from gateway.ledger.sqlite.serving.recovery import interrupt_pending
from gateway.ledger.sqlite.serving.thread import run_on_thread
from gateway.ledger.sqlite.serving.writer import LINGER_SECONDS
from tests.ledger.kit import (
    TOKENS,
    admission,
    assert_sound,
    find_key,
    make_place,
    query,
    settlement,
    until,
    void,
)


async def test_request_row_has_all_that_a_receipt_tells(tmp_path: Path) -> None:
    """The same columns, whether row and charge are one commit or two."""
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        first = ledger.hold(key, admission(1000, id_="chatcmpl-1"))
        await ledger.settle(first, settlement(77))
        second = ledger.hold(key, admission(1000, id_="chatcmpl-2"))
        await ledger.wait_admitted(second)
        await ledger.settle(second, settlement(77))
    rows = query(
        place.path,
        "SELECT account_id, key_id, model, provider, stream, hold_nano, state, input_tokens,"
        " cached_input_tokens, cache_write_tokens, output_tokens, input_price_nano,"
        " cached_input_price_nano, cache_write_price_nano, output_price_nano,"
        " request_price_nano, cost_nano, estimated, outcome, status, attempts, started_ms,"
        " first_byte_ms, ended_ms FROM requests ORDER BY id",
    )
    expected = (
        *(1, place.key_id, "demo/echo", "other", 0, 1000, "posted"),
        *(TOKENS.input, TOKENS.cached_input, TOKENS.cache_write, TOKENS.output),
        *(0, 0, 0, 0, 77),
        *(77, 0, "complete", 200, 2, 1_700_000_000_000, 12, 1_700_000_001_000),
    )
    assert rows == [expected, expected]


async def test_fast_reply_is_one_commit(tmp_path: Path) -> None:
    """A row that is settled before it was written is inserted in its final state."""
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        hold = ledger.hold(find_key(ledger, place), admission())
        await asyncio.sleep(0)
        future = ledger.settle(hold, settlement(5))
        assert not hold.recorded
        await future
        assert hold.recorded
        await ledger.wait_admitted(hold)


async def test_only_who_is_waited_for_is_urgent(tmp_path: Path) -> None:
    """An admission lingers for its settlement, a few milliseconds; a settlement does not."""
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        writer, loop = ledger._writer, asyncio.get_running_loop()
        await asyncio.sleep(0)
        hold = ledger.hold(find_key(ledger, place), admission())
        assert not writer._wake.is_set()
        assert writer._linger is not None
        assert writer._linger.when() - loop.time() <= LINGER_SECONDS
        _ = ledger.settle(hold, settlement(5))
        assert writer._wake.is_set()


async def test_settlement_during_its_admissions_commit_is_the_next_batch(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key, database, gate = find_key(ledger, place), ledger._writer._database, threading.Event()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(run_on_thread(database, lambda _: gate.wait()))
            hold = ledger.hold(key, admission())
            await until(lambda: database._tx.qsize() == 1)  # its row is under way
            future = ledger.settle(hold, settlement(100))
            gate.set()
            await future
        assert (key.account.balance_nano, key.account.held_nano) == (4900, 0)


async def test_many_settlements_are_batch_after_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one batch holds: the next one does not wait for the poll, or this takes an hour."""
    monkeypatch.setattr(writer, "POLL_SECONDS", 3600)
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        holds = [ledger.hold(key, admission(1)) for _ in range(20 * MAX_ITEMS)]
        futures = [ledger.settle(hold, settlement(1)) for hold in holds]
        await asyncio.gather(*futures)
        assert key.spent_nano == len(holds)


async def test_a_hold_that_never_reached_the_queue_is_not_admitted(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        late = take_hold(find_key(ledger, place), admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.wait_admitted(late)


async def test_bad_item_fails_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One item the database refuses: 500 for it alone, its hold free, its batch committed."""
    place = make_place(tmp_path, credit_nano=10**6)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        holds = [ledger.hold(key, admission()) for _ in range(20)]
        bad = {
            3: replace(settlement(100), status=0),
            7: settlement(-100),
            11: replace(settlement(100), attempts=2**70),
            13: replace(settlement(100), provider="\ud800"),
        }
        with caplog.at_level(logging.ERROR):
            futures = [
                ledger.settle(hold, bad.get(number, settlement(100)))
                for number, hold in enumerate(holds)
            ]
            results = await asyncio.gather(*futures, return_exceptions=True)
        failed = {number for number, result in enumerate(results) if result is not None}
        assert failed == set(bad)
        assert all(isinstance(results[number], InternalError) for number in bad)
        assert len(caplog.records) == len(bad)
        assert ledger.writable
        assert (key.account.balance_nano, key.account.held_nano) == (10**6 - 1600, 0)
    assert_sound(place.path)


async def test_row_settled_behind_our_back_is_not_charged(tmp_path: Path) -> None:
    """pending → posted or voided happens once, even if another process did it."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission())
        await ledger.wait_admitted(hold)
        with closing(connect(place.path)) as other:
            interrupt_pending(other, 1)
        with pytest.raises(InternalError):
            await ledger.settle(hold, settlement(100))
        assert (key.account.balance_nano, key.account.held_nano) == (5000, 0)
    assert_sound(place.path)


@pytest.mark.parametrize("first", [settlement(100), void()])
@pytest.mark.parametrize("second", [settlement(900), void()])
async def test_a_request_is_settled_once_in_the_books(
    tmp_path: Path, first: Settlement, second: Settlement
) -> None:
    """What was posted cannot be voided, nor the other way round; the row stays as it is."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        hold = ledger.hold(find_key(ledger, place), admission())
        await ledger.settle(hold, first)
    rows = "SELECT state, cost_nano FROM requests"
    before = query(place.path, rows)
    with closing(connect(place.path)) as connection, pytest.raises(NotPendingError):
        commit_requests(connection, [Item(hold, insert=False, settlement=second)], 1)
    assert query(place.path, rows) == before
    assert_sound(place.path)


async def test_unusable_database_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nowhere"):
        async with SqliteLedger.open(tmp_path / "nowhere" / "gateway.db"):
            pass
    with pytest.raises(LedgerError, match=r"gateway\.db"):
        async with SqliteLedger.open(tmp_path / "gateway.db", create=False):
            pass
    place = make_place(tmp_path)
    with SqliteBooks(place.path) as books:
        books.connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")
    with pytest.raises(LedgerMismatch, match="account a"):
        async with SqliteLedger.open(place.path):
            pass
