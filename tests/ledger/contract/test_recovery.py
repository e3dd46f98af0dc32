"""After a crash: what was in flight is interrupted, once, free of charge, and can be settled."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

import pytest

from gateway.ledger.call_records import Receipt
from gateway.ledger.records import LedgerLocked, NotFound
from gateway.ledger.serving.ledger import ServingLedger
from tests.ledger.contract.implementations import Needs, needs
from tests.ledger.contract.kit import (
    NOW_MS,
    WAIT_SECONDS,
    Place,
    admission,
    charge,
    find_key,
    read_receipt,
    settlement,
)

LATER_MS: Final = NOW_MS + 10**6
SERVER: Final = """
import asyncio
from tests.ledger.contract.kit import admission, charge, find_key
async def main():
    async with place.serve() as ledger:
        key = find_key(ledger, bytes.fromhex(sys.argv[3]))
        await charge(ledger, key, 70)
        holds = [
            ledger.hold(key, admission(1000, id_=f"req_a{n}", started_ms=1_700_000_000_000 + n))
            for n in range(3)
        ]
        for hold in holds:
            await ledger.wait_admitted(hold)
        print("ready", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture
def crashed(place: Place) -> bytes:
    """Kill a server that charged one request and had three in flight; return the key's digest."""
    digest = place.seed(credit_nano=5000)
    with place.run_process(SERVER, digest.hex()):
        pass
    return digest


async def wait_interrupted(ledger: ServingLedger, request_id: str) -> Receipt:
    """Wait until a node that crashed was silent for long; a single server knows when it starts."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (receipt := await read_receipt(ledger, request_id)).state == "pending":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return receipt


async def test_what_was_in_flight_is_interrupted_once(place: Place, crashed: bytes) -> None:
    """Charged 0, nothing held, status unknown; a second start changes nothing."""
    async with place.serve(now_ms=LATER_MS) as ledger:
        key = find_key(ledger, crashed)
        assert (key.account.balance_nano, key.account.held_nano, key.held_nano) == (4930, 0, 0)
        receipt = await wait_interrupted(ledger, "req_a0")
        assert (receipt.state, receipt.outcome, receipt.cost_nano) == ("voided", "interrupted", 0)
        assert (receipt.status, receipt.attempts, receipt.ended_ms) == (None, None, LATER_MS)
        await charge(ledger, key, 30)
    calls = place.read_calls()
    outcomes = sorted(call.outcome for call in calls)
    assert outcomes == ["complete", "complete", "interrupted", "interrupted", "interrupted"]
    async with place.serve(now_ms=LATER_MS + 1):
        assert place.read_calls() == calls
    assert place.read_balance() == 4900
    place.assert_sound()


async def test_a_clock_set_back_is_no_obstacle(place: Place, crashed: bytes) -> None:
    async with place.serve(now_ms=5) as ledger:
        assert ledger.find_key(crashed) is not None
        receipt = await wait_interrupted(ledger, "req_a1")
        assert receipt.ended_ms == receipt.started_ms


async def test_the_operator_settles_what_was_interrupted(place: Place, crashed: bytes) -> None:
    """The newest first; a correction that names a request takes it off, and it stays counted."""
    async with place.serve(now_ms=LATER_MS) as ledger:
        await wait_interrupted(ledger, "req_a2")
        with place.open_books() as books:
            report = books.audit()
            assert [one.request_id for one in report.to_settle] == ["req_a2", "req_a1", "req_a0"]
            newest = report.to_settle[0]
            assert (newest.account, newest.model, newest.hold_nano) == ("a", "demo/echo", 1000)
            books.entries.post("a", "correction", -9, note="delivered", request_id="req_a1")
            books.entries.post("a", "correction", 0, note="nothing came", request_id="req_a0")
            with pytest.raises(NotFound):
                books.entries.post("a", "correction", 0, note="n", request_id="unknown")
            report = books.audit()
            assert [one.request_id for one in report.to_settle] == ["req_a2"]
            assert (report.ok, report.interrupted, report.unsettled) == (True, 3, 1)
        await ledger.refresh()
        assert find_key(ledger, crashed).account.balance_nano == 4930 - 9


@needs(Needs.ONE_SERVER)
async def test_one_process_serves_and_the_books_interrupt_nothing(place: Place) -> None:
    """A second server is refused while the first one lives, be it killed or closed in the end."""
    digest = place.seed(credit_nano=5000)
    with ExitStack() as until_killed:
        until_killed.enter_context(place.run_process(SERVER, digest.hex()))
        with pytest.raises(LedgerLocked):
            async with place.serve():
                pass
        with place.open_books() as books:
            report = books.audit()
        assert (report.pending, report.interrupted) == (3, 0)
    async with place.serve() as ledger:
        with pytest.raises(LedgerLocked):
            async with place.serve():
                pass
        hold = ledger.hold(find_key(ledger, digest), admission())
        await ledger.settle(hold, settlement(7))
    async with place.serve():
        assert place.read_balance() == 5000 - 70 - 7


@needs(Needs.NODES)
async def test_nobody_interrupts_what_another_node_serves(place: Place) -> None:
    """Nodes come and go, and the books are opened; what a node that leaves had pending has ended."""
    digest = place.seed(credit_nano=5000)
    with place.run_process(SERVER, digest.hex()):
        async with place.serve() as ledger:
            await ledger.wait_admitted(ledger.hold(find_key(ledger, digest), admission()))
            with place.open_books() as books:
                report = books.audit()
            assert (report.pending, report.interrupted) == (4, 0)
        with place.open_books() as books:
            report = books.audit()
        assert (report.ok, report.pending, report.interrupted) == (True, 3, 1)
