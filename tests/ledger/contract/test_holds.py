"""Holds, settlements and changes by operators, where several tasks or processes act at once; `played/` has the rest."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from gateway.base.errors import NoFunds
from gateway.base.times import DAY_MS
from gateway.ledger.budget_records import Allowance
from tests.ledger.contract.kit import (
    NOW_MS,
    Place,
    admission,
    charge,
    create_key,
    find_key,
    key_id_of,
    settlement,
    until,
    void,
)

ROUNDS: Final = 100
OPERATOR: Final = """
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    with place.open_books() as books:
        books.entries.post("a", "credit", 1000 + number, note="", idempotency_key=str(number))
        books.entries.post("a", "correction", -7, note="a slip")
"""


async def test_changes_are_in_force_before_long(place: Place) -> None:
    """Credits, suspensions, new accounts and keys, revocations: while the server is idle."""
    async with place.serve_key(credit_nano=5000) as (ledger, key):
        account = key.account
        with place.open_books() as books:
            books.entries.post("a", "credit", 250, note="")
            books.accounts.suspend("a")
            books.accounts.create("b", credit_nano=7, operator=False)
            new = create_key(books, "b")
            await until(lambda: ledger.find_key(new) is not None)
            found = find_key(ledger, new)
            assert (found.account.name, found.account.balance_nano) == ("b", 7)
            assert (account.balance_nano, account.suspended) == (5250, True)
            books.accounts.resume("a")
            books.keys.revoke(key_id_of(new))
            await until(lambda: not (account.suspended or found.is_live(NOW_MS)))


async def test_terms_stay_the_same_record_as_long_as_nothing_in_them_changes(place: Place) -> None:
    """Limits are made from it."""
    digest = place.seed()
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        known = key.terms, key.account.terms
        with place.open_books() as books:
            books.entries.post("a", "credit", 1, note="")
            books.keys.edit(key.id, {"name": ""})
        await ledger.refresh()
        assert find_key(ledger, digest) is key
        assert key.terms is known[0]
        assert key.account.terms is known[1]


@pytest.mark.slow
async def test_another_process_beside_charges_loses_and_doubles_nothing(place: Place) -> None:
    """An operator's process credits and corrects in a loop while the server charges all it can."""
    charges = 0
    async with place.serve_key() as (ledger, key):
        with place.run_process(OPERATOR, str(ROUNDS)) as operator:
            assert operator.stdin is not None
            operator.stdin.write(b"go\n")
            operator.stdin.flush()

            async def spend() -> None:
                nonlocal charges
                while operator.poll() is None:
                    await charge(ledger, key, 11, hold_nano=5)
                    charges += 1

            async with asyncio.TaskGroup() as group:
                for _ in range(32):
                    group.create_task(spend())
            assert operator.returncode == 0
        expected = 10**12 + sum(1000 + number for number in range(ROUNDS)) - 7 * ROUNDS
        expected -= 11 * charges
        await until(lambda: key.account.balance_nano == expected)
        assert (key.spent_nano, key.account.held_nano) == (11 * charges, 0)
        assert ledger.writable
    print(f"{charges} charges beside {2 * ROUNDS} of the operator")
    assert charges > ROUNDS
    assert place.read_balance() == expected
    place.assert_sound()


async def test_a_key_was_last_used_when_a_charged_request_ended(place: Place) -> None:
    """The latest of a batch counts, later batches never set it back, and voids do not count."""
    digest, noted = place.seed(), []
    early, late = (settlement(1, ended_ms=NOW_MS + ms) for ms in (7, 50))
    failed = replace(void(), ended_ms=NOW_MS + 99)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for ends in ([failed], [late, early], [early, failed]):
            await asyncio.gather(
                *(ledger.settle(ledger.hold(key, admission()), end) for end in ends)
            )
            with place.open_books() as books:
                noted.append(books.keys.read(key_id_of(digest)).last_used_ms)
    assert noted == [None, NOW_MS + 50, NOW_MS + 50]


async def test_a_budget_is_that_of_today_for_a_request_that_began_yesterday(place: Place) -> None:
    """Its body took until then. What today has spent counts, and what yesterday had spent does not."""
    digest, later_ms = place.seed(), NOW_MS + DAY_MS
    with place.open_books() as books:
        books.keys.edit(key_id_of(digest), {}, own=Allowance(500, "day"))
    async with place.serve() as ledger:
        await charge(ledger, find_key(ledger, digest), 500)
    async with place.serve(now_ms=later_ms) as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(100))
        await ledger.confirm(hold)
        await ledger.settle(hold, settlement(500, ended_ms=later_ms))
        with pytest.raises(NoFunds, match=r"^budget$"):
            await ledger.confirm(ledger.hold(key, admission(100)))
    place.assert_sound()


async def test_a_settlement_outlives_its_handler(place: Place) -> None:
    """A handler that is cancelled while it waits does not take its charge along."""
    async with place.serve_key(credit_nano=5000) as (ledger, key):

        async def handle() -> None:
            await ledger.settle(ledger.hold(key, admission()), settlement(100))

        async with asyncio.TaskGroup() as group:
            handler = group.create_task(handle())
            await asyncio.sleep(0)
            handler.cancel()
        assert handler.cancelled()
        await until(lambda: key.account.balance_nano == 4900)
        assert key.account.held_nano == 0


async def test_what_is_queued_is_committed_at_the_end(place: Place) -> None:
    """Nobody has to wait for a settlement."""
    async with place.serve_key(credit_nano=10**6) as (ledger, key):
        for hold in [ledger.hold(key, admission(1)) for _ in range(1300)]:
            _ = ledger.settle(hold, settlement(3))
    assert place.read_balance() == 10**6 - 3900
    place.assert_sound()
