"""Budgets: who may spend from them, what they count, and when they begin anew."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from gateway.errors import BalanceHeld, BudgetSpent
from gateway.ledger.base import COMMIT_SECONDS, Key
from gateway.ledger.key_records import Allowance, BudgetView, KeyTerms, Period
from gateway.ledger.records import StoredSecret
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql.books import Books
from gateway.times import DAY_MS, HOUR_MS
from tests.ledger.contract.kit import (
    NOW_MS,
    Place,
    admission,
    create_key,
    find_key,
    key_id_of,
    settlement,
    void,
)

A_DAY = Allowance(1000, "day")
MIDNIGHT_MS = NOW_MS - NOW_MS % DAY_MS + DAY_MS
"""The first one after `NOW_MS`, which is in the evening of 2023-11-14."""


class Clock:
    """The wall clock of a ledger, for all that is written and decided."""

    def __init__(self, place: Place, now_ms: int = NOW_MS) -> None:
        self._place = place
        self.now_ms = now_ms

    def serve(self) -> AbstractAsyncContextManager[ServingLedger]:
        storage = self._place.storage
        return storage.serve(clock=lambda: self.now_ms, commit_seconds=COMMIT_SECONDS)

    def open_books(self) -> Books:
        return self._place.open_books(now_ms=self.now_ms)

    async def charge(self, ledger: ServingLedger, key: Key, cost_nano: int) -> None:
        hold = ledger.hold(key, admission(0, started_ms=self.now_ms))
        await ledger.settle(hold, settlement(cost_nano, ended_ms=self.now_ms))

    def read_spent(self, key: Key) -> tuple[int, int]:
        """Return what is spent, by the server and by the books."""
        assert key.budget is not None
        with self.open_books() as books:
            return key.budget.find_spent_nano(self.now_ms), self.read(books, key).spent_nano

    def read(self, books: Books, key: Key) -> BudgetView:
        assert key.budget is not None
        return books.budgets.read(key.budget.id)


def seed(place: Place, allowance: Allowance = A_DAY, *, keys: int = 1) -> list[bytes]:
    """Make the account `a` with keys that share the budget `team`."""
    place.add_account()
    with place.open_books() as books:
        team = books.budgets.create("a", "team", allowance)
        return [create_key(books, "a", KeyTerms(budget_id=team.id)) for _ in range(keys)]


def seed_own(place: Place, allowance: Allowance = A_DAY) -> bytes:
    place.add_account()
    digest = b"o" * 32
    with place.open_books() as books:
        secret = StoredSecret(key_id_of(digest), digest, "last")
        books.keys.create("a", KeyTerms(), secret, own=allowance)
    return digest


async def test_keys_of_a_budget_share_what_is_spent_and_held(place: Place) -> None:
    clock, digests = Clock(place), seed(place, keys=2)
    async with clock.serve() as ledger:
        one, other = (find_key(ledger, digest) for digest in digests)
        assert one.budget is other.budget
        assert list(ledger.budgets()) == [one.budget]
        await clock.charge(ledger, one, 400)
        hold = ledger.hold(one, admission(600))
        with pytest.raises(BalanceHeld, match="the budget 'team'"):
            ledger.hold(other, admission(0))
        await ledger.settle(hold, void())
        await clock.charge(ledger, other, 600)
        with pytest.raises(BudgetSpent, match=r"The budget 'team' of .* 2023-11-15 00:00 UTC"):
            ledger.hold(one, admission(0))
        assert (one.spent_nano, other.spent_nano) == (400, 600)
        assert clock.read_spent(one) == (1000, 1000)
    place.assert_sound()


@pytest.mark.parametrize(
    ("period", "resets_ms"),
    [
        ("day", MIDNIGHT_MS),
        ("week", MIDNIGHT_MS + 5 * DAY_MS),  # to Monday 2023-11-20
        ("month", MIDNIGHT_MS + 16 * DAY_MS),  # to 2023-12-01
    ],
)
async def test_a_budget_begins_anew_with_its_period(
    place: Place, period: Period, resets_ms: int
) -> None:
    clock, digest = Clock(place), seed_own(place, Allowance(1000, period))
    async with clock.serve() as ledger:
        key = find_key(ledger, digest)
        await clock.charge(ledger, key, 1500)
        clock.now_ms = resets_ms - 1
        with pytest.raises(BudgetSpent):
            await clock.charge(ledger, key, 1)
        with clock.open_books() as books:
            assert clock.read(books, key).resets_ms == resets_ms
        clock.now_ms = resets_ms
        assert clock.read_spent(key) == (0, 0)
        await clock.charge(ledger, key, 30)
        assert clock.read_spent(key) == (30, 30)
    place.assert_sound()


async def test_a_late_settlement_leaves_the_new_period_alone(place: Place) -> None:
    """A request that ended before midnight is committed behind it, beside others."""
    clock, digest = Clock(place, MIDNIGHT_MS - 10), seed_own(place)
    async with clock.serve() as ledger:
        key = find_key(ledger, digest)
        await clock.charge(ledger, key, 100)
        late, longer, later = (ledger.hold(key, admission(5)) for _ in range(3))
        clock.now_ms = MIDNIGHT_MS + 10
        await ledger.settle(late, settlement(200, ended_ms=MIDNIGHT_MS - 1))
        assert clock.read_spent(key) == (0, 0)
        await ledger.settle(longer, settlement(40, ended_ms=MIDNIGHT_MS))
        assert clock.read_spent(key) == (40, 40)
        await ledger.settle(later, settlement(1, ended_ms=MIDNIGHT_MS - 1))
        assert clock.read_spent(key) == (40, 40)
        assert key.budget is not None
        assert (key.spent_nano, key.budget.held_nano) == (341, 0)
    place.assert_sound()


async def test_a_clock_that_was_wrong_leaves_no_trace(place: Place) -> None:
    """It jumps ahead by a year and back: what was spent before the jump counts again."""
    clock, digest = Clock(place), seed_own(place)
    async with clock.serve() as ledger:
        key = find_key(ledger, digest)
        await clock.charge(ledger, key, 300)
        clock.now_ms += 365 * DAY_MS
        await clock.charge(ledger, key, 7)
        assert clock.read_spent(key) == (7, 7)
        clock.now_ms = NOW_MS + HOUR_MS
        await clock.charge(ledger, key, 20)
        assert clock.read_spent(key) == (320, 320)
        clock.now_ms = NOW_MS + 365 * DAY_MS
        await clock.charge(ledger, key, 1)
        assert clock.read_spent(key) == (8, 8)
    place.assert_sound()


async def test_a_request_is_charged_to_the_budget_of_its_hold(place: Place) -> None:
    """The key spends from another one from the next request on."""
    clock, (digest,) = Clock(place), seed(place)
    async with clock.serve() as ledger:
        key = find_key(ledger, digest)
        team = key.budget
        hold = ledger.hold(key, admission(300))
        with clock.open_books() as books:
            books.keys.edit(key_id_of(digest), {}, own=Allowance(50, "week"))
        await ledger.refresh()
        await ledger.settle(hold, settlement(250, ended_ms=NOW_MS))
        assert clock.read_spent(key) == (0, 0)
        assert team is not None
        assert (team.find_spent_nano(NOW_MS), team.held_nano) == (250, 0)
        await clock.charge(ledger, key, 9)
        assert clock.read_spent(key) == (9, 9)
    place.assert_sound()


async def test_changes_are_in_force_at_the_next_request(place: Place) -> None:
    """Changes of the amount, of the period, and of the key's budget; a new period counts what it should."""
    clock, (digest,) = Clock(place, MIDNIGHT_MS - HOUR_MS), seed(place)
    async with clock.serve() as ledger:
        key = find_key(ledger, digest)
        await clock.charge(ledger, key, 600)
        clock.now_ms = MIDNIGHT_MS
        await clock.charge(ledger, key, 1000)
        with pytest.raises(BudgetSpent):
            ledger.hold(key, admission(0, started_ms=MIDNIGHT_MS))
        assert key.budget is not None
        with clock.open_books() as books:
            books.budgets.edit(key.budget.id, {"allowance": Allowance(2000, "day")})
            await ledger.refresh()
            await clock.charge(ledger, key, 10)
            books.budgets.edit(key.budget.id, {"allowance": Allowance(1600, "week")})
            await ledger.refresh()
            assert clock.read_spent(key) == (1610, 1610)
            with pytest.raises(BudgetSpent, match="a week"):
                ledger.hold(key, admission(0, started_ms=MIDNIGHT_MS))
            books.keys.edit(key_id_of(digest), {"budget_id": None})
            await ledger.refresh()
            await clock.charge(ledger, key, 10)
            assert key.budget is None
    place.assert_sound()


async def test_a_rotated_key_keeps_the_budget(place: Place) -> None:
    """Old and new share it, a key's own too, so a rotation gives nothing away."""
    clock, digest = Clock(place), seed_own(place)
    async with clock.serve() as ledger:
        old = find_key(ledger, digest)
        await clock.charge(ledger, old, 400)
        new_digest = b"n" * 32
        with clock.open_books() as books:
            books.keys.replace(
                key_id_of(digest), StoredSecret("key_n", new_digest, "last"), grace_ms=DAY_MS
            )
        await ledger.refresh()
        new = find_key(ledger, new_digest)
        assert new.budget is old.budget
        await clock.charge(ledger, new, 500)
        await clock.charge(ledger, old, 100)
        with pytest.raises(BudgetSpent):
            ledger.hold(new, admission(1))
    place.assert_sound()


async def test_budgets_outlive_the_process(place: Place) -> None:
    """Spent money stays spent; what was in flight at the end is charged nothing and held no more."""
    clock, digest = Clock(place), seed_own(place)
    async with clock.serve() as ledger:
        key = find_key(ledger, digest)
        await clock.charge(ledger, key, 400)
        await ledger.wait_admitted(ledger.hold(key, admission(600)))
    async with clock.serve() as ledger:
        key = find_key(ledger, digest)
        assert key.budget is not None
        assert (clock.read_spent(key), key.budget.held_nano) == ((400, 400), 0)
    place.assert_sound()
