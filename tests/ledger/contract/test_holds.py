"""Holds and settlements: who may spend is decided in one step; charges are exact, durable, and at most once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import InternalError, LedgerUnavailable
from gateway.ledger.base import Settlement
from gateway.tasks import spawn
from tests.ledger.contract.kit import (
    NOW_MS,
    TOKENS,
    Place,
    admission,
    charge,
    find_key,
    key_id_of,
    settlement,
    until,
    void,
)


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
        await ledger.confirm(hold)
        await ledger.wait_admitted(hold)
        assert (key.account.held_nano, hold.resolved) == (1000, False)


async def test_a_hold_may_be_settled_while_it_is_confirmed(place: Place) -> None:
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(1000))
        confirming = spawn(ledger.confirm(hold), name="confirm")
        await ledger.settle(hold, void())
        await confirming
        assert (key.account.held_nano, key.account.balance_nano) == (0, 5000)


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


async def test_a_charge_is_exact_and_durable(place: Place) -> None:
    """Once `settle` is done, memory and books agree to the nano-unit."""
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission(1000, stream=True, id_="req_1"))
        settled = ledger.settle(hold, settlement(1234))
        assert (key.account.held_nano, hold.amount_nano) == (1234, 1234), "raised at once"
        await settled
        assert hold.resolved
        assert (key.account.balance_nano, key.account.held_nano) == (3766, 0)
        assert (key.spent_nano, key.held_nano) == (1234, 0)
        assert [account.name for account in ledger.accounts()] == ["a"]
    entry, credit = place.read_entries()
    assert (credit.kind, credit.amount_nano, credit.balance_after_nano) == ("credit", 5000, 5000)
    assert (entry.kind, entry.amount_nano, entry.balance_after_nano) == ("charge", -1234, 3766)
    (call,) = place.read_calls()
    assert (call.request_id, call.state, call.cost_nano) == (entry.request_id, "posted", 1234)
    assert (call.provider, call.tokens) == ("other", TOKENS)
    async with place.serve() as ledger:
        assert find_key(ledger, digest).account.balance_nano == 3766
    place.assert_sound()


@pytest.mark.parametrize(
    ("end", "state", "entries"),
    [
        (void(), "voided", [("credit", 5000)]),
        (settlement(0), "posted", [("charge", 0), ("credit", 5000)]),
    ],
    ids=["void", "free"],
)
async def test_only_a_free_reply_has_an_entry_of_0(
    place: Place, end: Settlement, state: str, entries: list[tuple[str, int]]
) -> None:
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        await ledger.settle(ledger.hold(key, admission()), end)
        assert (key.account.balance_nano, key.account.held_nano, key.held_nano) == (5000, 0, 0)
    (call,) = place.read_calls()
    assert (call.state, call.outcome, call.cost_nano) == (state, end.outcome, 0)
    assert [(entry.kind, entry.amount_nano) for entry in place.read_entries()] == entries
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


async def test_settling_twice_charges_once(place: Place) -> None:
    """Queued or committed, a second settlement changes nothing and ends as the first does."""
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        hold = ledger.hold(key, admission())
        first, second = ledger.settle(hold, settlement(100)), ledger.settle(hold, settlement(900))
        await second
        assert key.account.balance_nano == 4900
        await first
        await ledger.settle(hold, void())
        await ledger.settle(hold, settlement(800))
        assert (key.account.balance_nano, key.account.held_nano) == (4900, 0)
    assert place.read_balance() == 4900
    place.assert_sound()


async def test_a_settlement_outlives_its_handler(place: Place) -> None:
    """A handler that is cancelled while it waits does not take its charge along."""
    digest = place.seed(credit_nano=5000)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)

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
    digest = place.seed(credit_nano=10**6)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for hold in [ledger.hold(key, admission(1)) for _ in range(1300)]:
            _ = ledger.settle(hold, settlement(3))
    assert place.read_balance() == 10**6 - 3900
    place.assert_sound()


async def test_a_request_id_is_used_once(place: Place) -> None:
    """The second one of an id is refused alone, whatever is asked of it, and holds nothing."""
    digest = place.seed()
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        first = ledger.hold(key, admission(1000, id_="req_1"))
        await ledger.wait_admitted(first)
        twin = ledger.hold(key, admission(1000, id_="req_1"))
        assert ledger.open_holds == 2
        for ask in (ledger.wait_admitted, ledger.confirm, ledger.wait_admitted):
            with pytest.raises(InternalError):
                await ask(twin)
        with pytest.raises(InternalError):
            await ledger.settle(twin, settlement(5))
        assert (key.account.held_nano, ledger.open_holds) == (1000, 1)
        for _ in range(2):
            await ledger.settle(first, void())
        await charge(ledger, key, 5)
        assert ledger.open_holds == 0
        assert ledger.log_bytes >= 0
