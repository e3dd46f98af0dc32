"""Sums that no integer of a database holds: in a currency of small units, or after many years."""

from __future__ import annotations

from typing import Final

import pytest

from gateway.errors import InsufficientBalance
from gateway.ledger.base import Key
from gateway.ledger.call_records import Spent, UsageFilter
from gateway.ledger.serving.ledger import ServingLedger
from gateway.money import MAX_AMOUNT_NANO
from gateway.times import DAY_MS
from tests.ledger.contract.kit import NOW_MS, Place, admission, find_key, settlement

KEYS: Final = 3
CHARGES: Final = 6
SUM_NANO: Final = KEYS * CHARGES * MAX_AMOUNT_NANO
TODAY: Final = NOW_MS // DAY_MS


async def spend(place: Place) -> None:
    """Charge 18 × 10⁹ units, twice what an integer of 64 bits holds, to one account."""
    assert SUM_NANO > 2**63
    digests = [place.seed(credit_nano=MAX_AMOUNT_NANO)]
    digests += [place.add_key() for _ in range(1, KEYS)]
    async with place.serve() as ledger:
        for digest in digests * CHARGES:
            await charge_most(place, ledger, find_key(ledger, digest))


async def charge_most(place: Place, ledger: ServingLedger, key: Key) -> None:
    """Charge as much as one request can cost, and credit it again."""
    most = MAX_AMOUNT_NANO
    end = settlement(most, provider_cost_nano=most, reported_cost_nano=most)
    await ledger.settle(ledger.hold(key, admission()), end)
    with place.open_books() as books:
        books.entries.post("a", "credit", most, note="")
    await ledger.refresh()


async def test_every_sum_of_the_books_is_exact(place: Place) -> None:
    await spend(place)
    place.assert_sound()
    with place.open_books() as books:
        account_id = books.accounts.find_id("a")
        everything = UsageFilter(account_id, TODAY - 30, TODAY)
        for by in ("day", "model", "account"):
            ((_, usage),) = books.usage.sum_by(by, account=None, since_ms=None, until_ms=None)
            assert usage.cost_nano == SUM_NANO
        by_key = books.usage.sum_by("key", account="a", since_ms=0, until_ms=NOW_MS + DAY_MS + 1)
        assert [usage.cost_nano for _, usage in by_key] == [SUM_NANO // KEYS] * KEYS
        for unit in ("day", "hour"):
            (point,) = books.usage.report(everything, unit, by_key=True).points
            assert point.usage.cost_nano == SUM_NANO
        (costs,) = books.usage.sum_costs(
            "model", account=None, since_ms=None, until_ms=None
        ).values()
        assert (costs.cost_nano, costs.reported_nano) == (SUM_NANO, SUM_NANO)
        assert (costs.margin_nano, costs.difference_nano) == (0, 0)
        overview = books.usage.read_overview(account_id, first_day=TODAY - 30, soon_ms=0)
        assert overview.days[TODAY].cost_nano == SUM_NANO
        standing = books.accounts.read_standing(account_id, today=TODAY)
        assert standing.spent == Spent(SUM_NANO, SUM_NANO, SUM_NANO)
        assert books.accounts.rank("spent_7d", today=TODAY) == {account_id: SUM_NANO}


async def test_a_key_is_spent_before_its_sum_leaves_its_row(place: Place) -> None:
    digest = place.seed(credit_nano=MAX_AMOUNT_NANO)
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for _ in range(8):
            await charge_most(place, ledger, key)
        with pytest.raises(InsufficientBalance, match="spending cap is reached"):
            await ledger.confirm(ledger.hold(key, admission()))
    place.assert_sound()
