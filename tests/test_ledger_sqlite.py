"""Holds and settlements: who may spend, and that each is charged once."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_kit import (
    PRICE,
    TOKENS,
    admission,
    assert_sound,
    charge,
    find_key,
    make_place,
    query,
    settlement,
    until,
    void,
)

from gateway import accounts
from gateway.errors import InternalError, LedgerUnavailable
from gateway.ledger.base import Ledger, LedgerError, LedgerLocked, LedgerMismatch
from gateway.ledger.batch import MAX_ITEMS
from gateway.ledger.memory import take_hold
from gateway.ledger.recovery import interrupt_pending
from gateway.ledger.schema import connect
from gateway.ledger.sqlite import SqliteLedger
from gateway.ledger.thread import run_on_thread
from gateway.ledger.writer import LINGER_SECONDS, POLL_SECONDS


async def test_charge_is_exact_and_durable(tmp_path: Path) -> None:
    """What is in memory once `settle` is done is what the file has, to the nano-unit."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as opened:
        ledger: Ledger = opened
        key = find_key(opened, place)
        hold = ledger.hold(key, admission(1000, stream=True, id_="chatcmpl-1"))
        assert (key.account.held_nano, key.held_nano) == (1000, 1000)
        await ledger.wait_admitted(hold)
        assert query(place.path, "SELECT state FROM requests") == [("pending",)]
        future = ledger.settle(hold, settlement(1234))
        assert (key.account.held_nano, hold.amount_nano) == (1234, 1234), "raised at once"
        await future
        assert (key.account.balance_nano, key.account.held_nano) == (3766, 0)
        assert (key.spent_nano, key.held_nano) == (1234, 0)
        assert [account.name for account in ledger.accounts()] == ["a"]
    assert query(
        place.path,
        "SELECT kind, amount_nano, balance_after_nano, request_id FROM entries ORDER BY id",
    ) == [("credit", 5000, 5000, None), ("charge", -1234, 3766, "chatcmpl-1")]
    assert_sound(place.path)


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
        *(1, place.key_id, "demo/echo", "demo", 0, 1000, "posted"),
        *(TOKENS.input, TOKENS.cached_input, TOKENS.cache_write, TOKENS.output),
        *(PRICE.input, PRICE.cached_input, PRICE.cache_write, PRICE.output, PRICE.request),
        *(77, 0, "complete", 200, 1, 1_700_000_000_000, 12, 1_700_000_001_000),
    )
    assert rows == [expected, expected]


async def test_void_leaves_a_row_but_no_entry(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        await ledger.settle(ledger.hold(key, admission()), void())
        assert (key.account.balance_nano, key.account.held_nano, key.held_nano) == (5000, 0, 0)
    assert query(place.path, "SELECT state, cost_nano FROM requests") == [("voided", 0)]
    assert query(place.path, "SELECT count(*) FROM entries WHERE kind = 'charge'") == [(0,)]
    assert_sound(place.path)


async def test_free_model_is_posted_with_an_entry_of_0(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        await charge(ledger, find_key(ledger, place), 0, hold_nano=0)
    assert query(
        place.path,
        "SELECT state, amount_nano FROM requests JOIN entries ON request_id = requests.id",
    ) == [("posted", 0)]
    assert_sound(place.path)


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
        ledger.settle(hold, settlement(5))
        assert writer._wake.is_set()


async def test_settlement_during_its_admissions_commit_is_the_next_batch(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key, database, gate = find_key(ledger, place), ledger._writer._database, threading.Event()
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(run_on_thread(database, lambda _: gate.wait()))
            hold = ledger.hold(key, admission())
            await until(lambda: database._tx.qsize() == 1, 5)  # its row is under way
            future = ledger.settle(hold, settlement(100))
            gate.set()
            await future
        assert (key.account.balance_nano, key.account.held_nano) == (4900, 0)


async def test_many_settlements_are_batch_after_batch(tmp_path: Path) -> None:
    """More than one batch holds: the next one does not wait for the poll."""
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        holds = [ledger.hold(key, admission(1)) for _ in range(20 * MAX_ITEMS)]
        futures = [ledger.settle(hold, settlement(1)) for hold in holds]
        async with asyncio.timeout(15 * POLL_SECONDS):
            await asyncio.gather(*futures)
        assert key.spent_nano == len(holds)


async def test_admission_is_written_without_anyone_waiting(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        hold = ledger.hold(find_key(ledger, place), admission())
        await until(lambda: hold.recorded, 1)
        assert query(place.path, "SELECT state FROM requests") == [("pending",)]


async def test_settling_twice_charges_once(tmp_path: Path) -> None:
    """Queued or committed, a second settlement changes nothing, and has the first one's end."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission())
        first = ledger.settle(hold, settlement(100))
        assert ledger.settle(hold, settlement(900)) is first
        await first
        await ledger.settle(hold, void())
        assert (key.account.balance_nano, key.account.held_nano) == (4900, 0)
    assert_sound(place.path)


async def test_settlement_outlives_its_handler(tmp_path: Path) -> None:
    """A handler cancelled while it waits does not take its charge along."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        future = ledger.settle(ledger.hold(key, admission()), settlement(100))
        future.cancel()
        await until(lambda: key.account.balance_nano == 4900, 1)
        assert key.account.held_nano == 0


async def test_what_is_queued_is_committed_at_the_end(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=10**6)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        holds = [ledger.hold(key, admission(1)) for _ in range(1300)]
        for hold in holds:
            ledger.settle(hold, settlement(3))
    assert query(place.path, "SELECT balance_nano FROM accounts") == [(10**6 - 3900,)]
    assert_sound(place.path)


async def test_closed_ledger_takes_nothing(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        late = take_hold(key, admission())
    with pytest.raises(LedgerUnavailable):
        ledger.hold(key, admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.wait_admitted(late)
    with pytest.raises(LedgerUnavailable):
        await ledger.settle(late, settlement(1))


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


async def test_request_refused_at_admission_stays_refused(tmp_path: Path) -> None:
    """The same id twice: the second never gets a row, and whoever asks is told so."""
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        await ledger.wait_admitted(ledger.hold(key, admission(1000, id_="chatcmpl-1")))
        twin = ledger.hold(key, admission(1000, id_="chatcmpl-1"))
        with pytest.raises(InternalError):
            await ledger.wait_admitted(twin)
        with pytest.raises(InternalError):
            await ledger.wait_admitted(twin)
        with pytest.raises(InternalError):
            await ledger.settle(twin, settlement(5))
        assert key.account.held_nano == 1000


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


async def test_second_server_is_refused(tmp_path: Path) -> None:
    """In this process and in another; free again when the first one ends, even by a kill."""
    place = make_place(tmp_path)
    script = (
        "import asyncio, sys; from pathlib import Path;"
        "from gateway.ledger.sqlite import SqliteLedger\n"
        "async def main():\n"
        "    async with SqliteLedger.open(Path(sys.argv[1])):\n"
        "        print('serving', flush=True); await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs on this loop
        [sys.executable, "-c", script, str(place.path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"serving\n"
        with pytest.raises(LedgerLocked, match=r"gateway\.db"):
            async with SqliteLedger.open(place.path):
                pass
        other.kill()
    async with SqliteLedger.open(place.path):
        with pytest.raises(LedgerLocked):
            async with SqliteLedger.open(place.path):
                pass


async def test_unusable_database_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nowhere"):
        async with SqliteLedger.open(tmp_path / "nowhere" / "gateway.db"):
            pass
    with pytest.raises(LedgerError, match=r"gateway\.db"):
        async with SqliteLedger.open(tmp_path / "gateway.db", create=False):
            pass
    place = make_place(tmp_path)
    with accounts.open_books(place.path) as books:
        books._connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")
    with pytest.raises(LedgerMismatch, match="account a"):
        async with SqliteLedger.open(place.path):
            pass
