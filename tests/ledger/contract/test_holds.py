"""Holds: who may spend, decided in the same step that sets the money aside."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import BalanceHeld, InsufficientBalance, InternalError, LedgerUnavailable
from gateway.ledger.key_records import KeyTerms
from gateway.tasks import spawn
from tests.ledger.contract.kit import Place, admission, charge, find_key, settlement, until, void


async def test_a_hold_is_taken_at_once_and_recorded_before_the_first_byte(place: Place) -> None:
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(1000, id_="req_1"))
        assert (key.account.held_nano, key.held_nano) == (1000, 1000)
        assert (key.account.balance_nano, key.account.available_nano) == (5000, 4000)
        await ledger.wait_admitted(hold)
        with place.open_books() as books:
            assert books.calls.measure_pending() == (1, 1000)
            assert books.accounts.read("a").held_nano == 1000
        (call,) = place.read_calls()
        assert (call.request_id, call.state, call.outcome) == ("req_1", "pending", "pending")
        await ledger.wait_admitted(hold)


async def test_a_hold_is_confirmed(place: Place) -> None:
    """It is held as before until it is settled."""
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(1000))
        await ledger.confirm(hold)
        assert (key.account.held_nano, key.account.available_nano) == (1000, 4000)
        assert not hold.resolved
        await ledger.wait_admitted(hold)
        await ledger.settle(hold, settlement(10))
        assert (key.account.held_nano, key.account.balance_nano) == (0, 4990)


async def test_a_hold_may_be_settled_while_it_is_confirmed(place: Place) -> None:
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(1000))
        confirming = spawn(ledger.confirm(hold), name="confirm")
        await ledger.settle(hold, void())
        await confirming
        assert (key.account.held_nano, key.account.balance_nano) == (0, 5000)


async def test_a_hold_is_recorded_without_anyone_waiting(place: Place) -> None:
    digest = place.seed()
    async with place.serve() as ledger:
        ledger.hold(find_key(ledger, digest), admission())
        await until(lambda: len(place.read_calls()) == 1)


@pytest.mark.parametrize("cost_nano", [1, 500])
async def test_the_balance_must_be_positive(place: Place, cost_nano: int) -> None:
    """402 at 0 and below; however small, a positive rest is accepted."""
    digest = place.seed(credit_nano=1)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        await charge(ledger, key, cost_nano, hold_nano=400)
        assert key.account.balance_nano == 1 - cost_nano
        with pytest.raises(InsufficientBalance):
            ledger.hold(key, admission(0))


async def test_what_others_hold_is_refused_until_it_is_free(place: Place) -> None:
    digest = place.seed(credit_nano=100)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        first = ledger.hold(key, admission(100))
        with pytest.raises(BalanceHeld):
            ledger.hold(key, admission(1))
        await ledger.settle(first, void())
        ledger.hold(key, admission(1))


async def test_open_holds_are_counted_until_they_are_settled(place: Place) -> None:
    """Those too that the ledger refuses for good."""
    digest = place.seed(credit_nano=100)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        first = ledger.hold(key, admission(1, id_="req_1"))
        second = ledger.hold(key, admission(1))
        assert ledger.open_holds == 2
        await ledger.settle(first, void())
        await ledger.settle(first, void())
        assert ledger.open_holds == 1
        repeated = ledger.hold(key, admission(1, id_="req_1"))
        with pytest.raises(InternalError):
            await ledger.settle(repeated, void())
        await ledger.settle(second, settlement(1))
        assert ledger.open_holds == 0
        assert ledger.log_bytes >= 0


@pytest.mark.parametrize("count", [200, 1000])
async def test_concurrent_holds_never_pass_on_the_same_money(place: Place, count: int) -> None:
    """A balance of ten holds lets ten through at once, the rest is told to try again."""
    digest = place.seed(credit_nano=10_000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        start = asyncio.Event()

        async def try_hold() -> bool:
            await start.wait()
            try:
                ledger.hold(key, admission(1000))
            except BalanceHeld as refusal:
                return (refusal.status, refusal.retry_after_seconds) != (429, 1)
            return True

        async with asyncio.TaskGroup() as group:
            tries = [group.create_task(try_hold()) for _ in range(count)]
            start.set()
        assert sum(one.result() for one in tries) == 10
        assert key.account.available_nano == 0


async def test_a_cap_is_a_402_once_spent_and_a_429_while_held(place: Place) -> None:
    digest = place.seed(terms=KeyTerms(cap_nano=1000))
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(5000))
        with pytest.raises(BalanceHeld, match="spending cap"):
            ledger.hold(key, admission(0))
        await ledger.settle(hold, settlement(999))
        await charge(ledger, key, 1, hold_nano=1)
        assert key.spent_nano == 1000
        with pytest.raises(InsufficientBalance, match="spending cap is reached"):
            ledger.hold(key, admission(0))


async def test_a_negative_hold_is_a_bug(place: Place) -> None:
    digest = place.seed()
    async with place.serve() as ledger:
        with pytest.raises(ValueError, match="-1 is no number"):
            ledger.hold(find_key(ledger, digest), admission(-1))


async def test_a_closed_ledger_takes_nothing(place: Place) -> None:
    digest = place.seed()
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        late = ledger.hold(key, admission())
    await ledger.wait_ended()
    assert not ledger.writable
    with pytest.raises(LedgerUnavailable):
        ledger.hold(key, admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.settle(late, settlement(1))
