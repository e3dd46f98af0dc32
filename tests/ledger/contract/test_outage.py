"""Commits that fail, rows that cannot be written, crashes: nobody spends, nothing is lost, and it ends by itself."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.base.errors import GatewayError, InternalError, LedgerUnavailable
from gateway.base.money import Tokens
from gateway.ledger.base import Key
from gateway.ledger.call_records import Receipt
from gateway.ledger.records import LedgerLocked, NotFound
from gateway.ledger.serving.ledger import ServingLedger
from tests.ledger.contract.implementations import Needs, needs
from tests.ledger.contract.kit import (
    NOW_MS,
    SHORT_SECONDS,
    WAIT_SECONDS,
    Place,
    admission,
    charge,
    find_key,
    read_receipt,
    settlement,
    until,
    void,
)
from tests.support.rows import told_together


async def test_an_outage_refuses_holds_and_ends_by_itself(place: Place) -> None:
    """503 before the provider is asked, and at once while it lasts; nothing is charged for it."""
    async with place.serve_key(credit_nano=5000, commit_seconds=SHORT_SECONDS) as (ledger, key):
        with place.storage.fail_commits():
            hold = ledger.hold(key, admission())
            with pytest.raises(LedgerUnavailable):
                await ledger.confirm(hold)
            assert not ledger.writable
            with pytest.raises(LedgerUnavailable) as refusal:
                ledger.hold(key, admission())
            assert (refusal.value.status, refusal.value.retry_after_seconds) == (503, 1)
            assert place.read_balance() == 5000, "the books can be read meanwhile"
        await until(lambda: ledger.writable and hold.resolved)
        await expect_nothing(place, ledger, key)
        await charge(ledger, key, 5)
        with place.open_books() as books:
            assert books.measure_pending() == (0, 0)
    assert {call.outcome for call in place.read_receipts()} <= {"complete", "ledger_error"}
    place.assert_sound()


async def test_what_an_outage_delays_is_told_in_time_and_settled_once(place: Place) -> None:
    """A late charge is withdrawn where the caller says so; any other waits for the ledger."""
    async with place.serve_key(credit_nano=5000, commit_seconds=SHORT_SECONDS) as (ledger, key):
        holds = [ledger.hold(key, admission(id_=f"req_{number}")) for number in range(3)]
        whole, stream, failed = holds
        for hold in holds:
            await ledger.wait_admitted(hold)
        with place.storage.fail_commits():
            late, started = ledger.hold(key, admission()), time.perf_counter()
            refusal, *others = await asyncio.gather(
                ledger.settle(whole, settlement(700, withdraw_if_late=True)),
                ledger.settle(stream, settlement(70)),
                ledger.settle(stream, settlement(900)),
                ledger.settle(failed, void()),
                ledger.wait_admitted(late),
                return_exceptions=True,
            )
            assert time.perf_counter() - started >= SHORT_SECONDS
            assert isinstance(refusal, LedgerUnavailable)
            assert refusal.should_retry is False
            assert {type(one) for one in others} == {LedgerUnavailable}
            assert (stream.resolved, key.account.balance_nano) == (False, 5000)
            receipt = await read_receipt(ledger, "req_1")
            assert (receipt.state, receipt.cost_nano) == ("pending", 0)
        with suppress(LedgerUnavailable):  # the commit may still be late, and is not withdrawn
            await ledger.settle(late, void())
        await until(lambda: not ledger.open_holds)
        await ledger.refresh()  # of a charge whose answer was lost the next poll tells
        assert (key.account.balance_nano, key.account.held_nano) == (4930, 0)
        receipts = [await read_receipt(ledger, hold.admission.request_id) for hold in holds]
        assert [(one.state, one.outcome, one.cost_nano, one.status) for one in receipts] == [
            ("voided", "ledger_error", 0, 503),
            ("posted", "complete", 70, 200),
            ("voided", "upstream_error", 0, 200),
        ]
    assert place.read_balance() == 4930
    place.assert_sound()


async def expect_nothing(place: Place, ledger: ServingLedger, key: Key, calls: int = 0) -> None:
    """Nothing is held, in flight, written or charged for what was refused."""
    await until(lambda: not ledger.open_holds)
    await ledger.refresh()
    assert (key.account.held_nano, key.held_nano) == (0, 0)
    assert key.account.balance_nano == place.read_balance()
    assert len([one for one in place.read_receipts() if one.outcome == "complete"]) == calls


UNWRITABLE: Final[tuple[dict[str, Any], ...]] = (
    {"hold_nano": 2**63}, {"hold_nano": 10**22}, {"hold_nano": -1}, {"started_ms": 2**63},
    {"started_ms": -1}, {"expected_tokens": 2**63}, {"model": "m" * 501}, {"model": "a\0b"},
    {"model": "\ud800"}, {"provider": "p" * 10**6}, {"provider": "\0"},
)  # fmt: skip


async def test_what_no_row_can_say_is_never_held(place: Place) -> None:
    async with place.serve_key() as (ledger, key):
        with told_together() as row:
            for edit in UNWRITABLE:
                with row(repr(edit)), pytest.raises(ValueError, match="the ledger can write"):
                    ledger.hold(key, replace(admission(), **edit))
        await expect_nothing(place, ledger, key)
        await charge(ledger, key, 5)
        await expect_nothing(place, ledger, key, calls=1)
    place.assert_sound()


@pytest.mark.parametrize("text", ["m" * 500, "模" * 500, "\x7f\u2028'\"\\%s$1"])
async def test_all_that_is_held_can_be_written(place: Place, text: str) -> None:
    async with place.serve_key() as (ledger, key):
        hold = ledger.hold(key, replace(admission(2**62), model=text, provider=text))
        await ledger.confirm(hold)
        await ledger.wait_admitted(hold)
    (call,) = place.read_receipts()
    assert (call.model, call.provider) == (text, text)


UNCHARGEABLE: Final[tuple[dict[str, Any], ...]] = (
    {"cost_nano": 2**63},
    {"provider_cost_nano": 10**19},
    {"reported_cost_nano": 2**70},
    {"tokens": Tokens(input=2**63)},
    {"tokens": Tokens(media={"audio_input": 2**70})},
    {"tool_calls": {"\ud800": 1}},
    {"tool_calls": {"search": 2**70}},
    {"ended_ms": 2**63},
    {"provider": "\ud800"},
    {"status": 2**63},
)


@pytest.mark.parametrize("waits", [False, True], ids=["one commit", "two commits"])
async def test_a_charge_that_no_row_can_say_leaves_a_void(place: Place, *, waits: bool) -> None:
    """The fault is ours, so nothing is charged; but the request that was sent has its row."""
    async with place.serve_key() as (ledger, key):
        with told_together() as row:
            for number, edit in enumerate(UNCHARGEABLE):
                with row(repr(edit)):
                    hold = ledger.hold(key, admission(id_=f"req_{number}"))
                    if waits:
                        await ledger.wait_admitted(hold)
                    with pytest.raises(InternalError):
                        await ledger.settle(hold, replace(settlement(5), **edit))
                    await expect_nothing(place, ledger, key)
                    told = await read_receipt(ledger, f"req_{number}")
                    assert (told.state, told.outcome, told.cost_nano) == (
                        "voided",
                        "ledger_error",
                        0,
                    )
        await charge(ledger, key, 5)
    place.assert_sound()


async def test_a_row_that_the_database_refuses_is_found_before_the_provider_is_asked(
    place: Place,
) -> None:
    async with place.serve_key(commit_seconds=SHORT_SECONDS) as (ledger, key):
        place.storage.refuse_rows()
        for _ in range(3):
            hold = ledger.hold(key, admission())
            with pytest.raises(GatewayError):
                await ledger.confirm(hold)
            await expect_nothing(place, ledger, key)


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
    calls = place.read_receipts()
    outcomes = sorted(call.outcome for call in calls)
    assert outcomes == ["complete", "complete", "interrupted", "interrupted", "interrupted"]
    async with place.serve(now_ms=LATER_MS + 1):
        assert place.read_receipts() == calls
    assert place.read_balance() == 4900
    place.assert_sound()


async def test_the_operator_settles_what_was_interrupted(place: Place, crashed: bytes) -> None:
    """The newest first; a correction that names a request takes it off, and it stays counted.

    The clock was set back meanwhile, which is no obstacle.
    """
    async with place.serve(now_ms=5) as ledger:
        receipt = await wait_interrupted(ledger, "req_a2")
        assert receipt.ended_ms == receipt.started_ms
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
