"""Commits that fail: nobody spends, nobody waits long, nothing is lost, and it ends by itself."""

from __future__ import annotations

import time

import pytest

from gateway.errors import LedgerUnavailable
from tests.ledger.contract.kit import (
    SHORT_SECONDS,
    Place,
    admission,
    charge,
    find_key,
    read_receipt,
    settlement,
    until,
    void,
)


async def test_an_outage_refuses_holds_and_ends_by_itself(place: Place) -> None:
    """503 at once while it lasts; what was queued is committed once it is over."""
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        with place.storage.fail_commits():
            ledger.hold(key, admission())
            await until(lambda: not ledger.writable)
            with pytest.raises(LedgerUnavailable) as refusal:
                ledger.hold(key, admission())
            assert (refusal.value.status, refusal.value.retry_after_seconds) == (503, 1)
            assert place.read_balance() == 5000, "the books can be read meanwhile"
        await until(lambda: ledger.writable)
        await charge(ledger, key, 5)
    assert len(place.read_calls()) == 2
    place.assert_sound()


async def test_a_late_charge_is_withdrawn_where_the_caller_says_so(place: Place) -> None:
    """Its waiter is told not to retry, and nothing is charged, then or later."""
    digest = place.seed(credit_nano=5000)
    async with place.serve(commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(id_="req_1"))
        await ledger.wait_admitted(hold)
        with place.storage.fail_commits():
            with pytest.raises(LedgerUnavailable) as refusal:
                await ledger.settle(hold, settlement(700, withdraw_if_late=True))
            assert refusal.value.should_retry is False
        await until(lambda: hold.resolved)
        assert (key.account.balance_nano, key.account.held_nano) == (5000, 0)
        receipt = await read_receipt(ledger, "req_1")
        assert (receipt.state, receipt.outcome, receipt.cost_nano, receipt.status) == (
            "voided",
            "ledger_error",
            0,
            503,
        )
    place.assert_sound()


async def test_any_other_late_charge_waits_for_the_ledger(place: Place) -> None:
    """Its waiter is told after the same time, but what was delivered is charged."""
    digest = place.seed(credit_nano=5000)
    async with place.serve(commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(stream=True))
        await ledger.wait_admitted(hold)
        with place.storage.fail_commits():
            with pytest.raises(LedgerUnavailable):
                await ledger.settle(hold, settlement(700))
            assert not hold.resolved
            assert (key.account.balance_nano, key.account.held_nano) == (5000, 1000)
        await until(lambda: hold.resolved)
        assert (key.account.balance_nano, key.account.held_nano) == (4300, 0)
    place.assert_sound()


async def test_admission_and_void_wait_no_longer_than_told(place: Place) -> None:
    digest = place.seed()
    async with place.serve(commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, digest)
        with place.storage.fail_commits():
            first, second = ledger.hold(key, admission()), ledger.hold(key, admission())
            started = time.perf_counter()
            with pytest.raises(LedgerUnavailable):
                await ledger.wait_admitted(first)
            with pytest.raises(LedgerUnavailable):
                await ledger.settle(second, void())
            assert time.perf_counter() - started >= SHORT_SECONDS
        await ledger.settle(first, void())
        assert key.account.held_nano == 0
    assert {call.outcome for call in place.read_calls()} == {"upstream_error"}


async def test_a_settlement_after_an_outage_is_still_at_most_once(place: Place) -> None:
    digest = place.seed(credit_nano=5000)
    async with place.serve(commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(stream=True))
        with place.storage.fail_commits():
            with pytest.raises(LedgerUnavailable):
                await ledger.settle(hold, settlement(700))
            with pytest.raises(LedgerUnavailable):
                await ledger.settle(hold, settlement(900))
        await until(lambda: hold.resolved)
    assert place.read_balance() == 4300
    place.assert_sound()
