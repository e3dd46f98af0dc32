"""Crowds: many at once on little money, and the same money operation a hundred times at once."""

from __future__ import annotations

import asyncio
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier

import pytest

from gateway.admin import accounts
from gateway.errors import BalanceHeld, InsufficientBalance
from gateway.ledger.base import Settlement
from gateway.ledger.records import EntryView
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from tests.ledger.kit import (
    Place,
    admission,
    assert_sound,
    find_key,
    make_place,
    query,
    settlement,
    void,
)
from tests.support.rows import each_row

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
CROWD = 1000
HOLD = 1000
CREDIT = 10 * HOLD
DUPLICATES = 100


@dataclass(slots=True)
class Tally:
    """The fate of a crowd."""

    in_flight: int = 0
    peak: int = 0
    admitted: int = 0
    charged: int = 0
    beyond_holds: int = 0
    held_429: int = 0
    empty_402: int = 0


async def run_crowd(place: Place, seed: int, tally: Tally) -> int:
    """1,000 requests that all begin at once; gives the balance they leave."""
    draw = random.Random(seed)
    plans = [(draw.randint(HOLD // 10, 2 * HOLD), draw.randrange(30)) for _ in range(CROWD)]
    start = asyncio.Event()
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)

        async def request(cost_nano: int, delay: int) -> None:
            await start.wait()
            for _ in range(delay):
                await asyncio.sleep(0.002)
            try:
                hold = ledger.hold(key, admission(HOLD))
            except BalanceHeld:
                tally.held_429 += 1
                return
            except InsufficientBalance:
                tally.empty_402 += 1
                return
            tally.admitted += 1
            tally.in_flight += 1
            tally.peak = max(tally.peak, tally.in_flight)
            await ledger.wait_admitted(hold)
            tally.in_flight -= 1
            tally.charged += cost_nano
            tally.beyond_holds += max(cost_nano - HOLD, 0)
            await ledger.settle(hold, settlement(cost_nano))

        async with asyncio.TaskGroup() as group:
            for plan in plans:
                group.create_task(request(*plan))
            start.set()
        assert key.account.held_nano == 0
        return key.account.balance_nano


@pytest.mark.parametrize("seeds", [2, pytest.param(20, marks=pytest.mark.slow)])
async def test_a_crowd_of_1000_on_a_balance_worth_10(seeds: int) -> None:
    """At most 11 at once; overspent by no more than a hold and what they cost beyond theirs."""
    for seed in range(seeds):
        await check_crowd(seed)


async def check_crowd(seed: int) -> None:
    tally = Tally()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        place = make_place(Path(folder), credit_nano=CREDIT)
        balance = await run_crowd(place, seed, tally)
        assert_sound(place.path)
        posted = query(place.path, "SELECT count(*), sum(cost_nano) FROM requests")
    print(f"seed {seed}: {tally}, balance {balance}")
    assert tally.peak <= 11
    assert tally.admitted + tally.held_429 + tally.empty_402 == CROWD
    assert posted == [(tally.admitted, tally.charged)]
    assert balance == CREDIT - tally.charged
    assert -balance < tally.beyond_holds + HOLD, "the last one in may hold more than there is"


@each_row(
    ("endings", "states"),
    [
        ([settlement(700)] * DUPLICATES, {("posted", 700)}),
        ([void()] * DUPLICATES, {("voided", 0)}),
        ([settlement(700), void()] * (DUPLICATES // 2), {("posted", 700)}),
        ([void(), settlement(700)] * (DUPLICATES // 2), {("voided", 0)}),
        ([settlement(cost) for cost in range(1, DUPLICATES + 1)], {("posted", 1)}),
    ],
)
async def test_100_endings_of_one_request_at_once_are_one(
    tmp_path: Path, endings: list[Settlement], states: set[tuple[str, int]]
) -> None:
    """The first that was asked for counts; all hundred get its answer."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission(HOLD))

        async def end(how: Settlement) -> asyncio.Future[None]:
            future = ledger.settle(hold, how)
            await future
            return future

        async with asyncio.timeout(60):
            futures = await asyncio.gather(*(end(how) for how in endings))
        assert len(set(futures)) == 1
        assert key.account.held_nano == 0
    assert set(query(place.path, "SELECT state, cost_nano FROM requests")) == states
    (_, cost), *_ = states
    charges = query(place.path, "SELECT amount_nano FROM entries WHERE kind = 'charge'")
    assert charges == ([(-cost,)] if cost else [])
    assert_sound(place.path)


async def test_100_top_ups_with_one_key_beside_charges_are_one() -> None:
    """From connections of their own, while the server charges: one entry, equal replies."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        await top_up_at_once(make_place(Path(folder), credit_nano=CREDIT))


async def top_up_at_once(place: Place) -> None:
    start = Barrier(DUPLICATES)

    def credit(_: int) -> EntryView:
        with accounts.open_books(place.path) as books:
            start.wait()
            return accounts.credit(books, "a", 5, note="n", idempotency_key="k")

    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        with ThreadPoolExecutor(DUPLICATES) as pool:
            loop = asyncio.get_running_loop()
            top_ups = [loop.run_in_executor(pool, credit, n) for n in range(DUPLICATES)]
            charges = 0
            while not all(one.done() for one in top_ups):
                if not ledger.writable:  # locked for long: the machine is busy
                    await asyncio.sleep(0.01)
                    continue
                await ledger.settle(ledger.hold(key, admission(1)), settlement(1))
                charges += 1
                await asyncio.sleep(0.002)  # SQLite's locks are not fair: the others get a turn
            replies = {await one for one in top_ups}
    assert len(replies) == 1
    assert query(place.path, "SELECT balance_nano FROM accounts") == [(CREDIT + 5 - charges,)]
    assert query(place.path, "SELECT count(*) FROM entries WHERE kind = 'credit'") == [(2,)]
    assert_sound(place.path)
