"""Who may spend: the one synchronous step of check and reservation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ledger_kit import admission, charge, find_key, make_place, settlement

from gateway.errors import BalanceHeld, InsufficientBalance
from gateway.ledger.sqlite import SqliteLedger


@pytest.mark.parametrize("cost_nano", [1, 500])
async def test_balance_must_be_positive(tmp_path: Path, cost_nano: int) -> None:
    """402 at 0 and below; however small, a positive rest is accepted."""
    place = make_place(tmp_path, credit_nano=1)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, cost_nano, hold_nano=400)
        assert key.account.balance_nano == 1 - cost_nano
        with pytest.raises(InsufficientBalance):
            ledger.hold(key, admission(0))


@pytest.mark.parametrize("count", [200, 1000])
async def test_concurrent_holds_never_pass_on_the_same_money(tmp_path: Path, count: int) -> None:
    """A balance of ten holds lets ten through at once, the rest is told to try again."""
    place = make_place(tmp_path, credit_nano=10_000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
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


async def test_key_cap_is_a_402_once_spent_and_a_429_while_held(tmp_path: Path) -> None:
    place = make_place(tmp_path, cap_nano=1000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission(5000))
        with pytest.raises(BalanceHeld, match="spending cap"):
            ledger.hold(key, admission(0))
        await ledger.settle(hold, settlement(999))
        await charge(ledger, key, 1, hold_nano=1)
        with pytest.raises(InsufficientBalance, match="spending cap is reached"):
            ledger.hold(key, admission(0))


async def test_negative_hold_is_a_bug(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        with pytest.raises(ValueError, match="negative"):
            ledger.hold(find_key(ledger, place), admission(-1))
