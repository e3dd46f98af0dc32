"""The providers' bill is kept with each charge, and summed for operators."""

from __future__ import annotations

from dataclasses import replace

from gateway.ledger.call_records import Outcome, ProviderCosts, UsageGroup
from gateway.times import DAY_MS
from tests.ledger.contract.kit import (
    NOW_MS,
    Place,
    admission,
    find_key,
    key_id_of,
    settlement,
)

LATER_MS = NOW_MS + DAY_MS
ENDS = (
    ("small", 100, 60, None, NOW_MS),
    ("small", 100, 70, 75, NOW_MS),
    ("small", 50, 0, 0, LATER_MS),
    ("small", 9, None, None, NOW_MS),
    ("large", 30, 40, None, LATER_MS),
    ("routed", 20, None, 8, NOW_MS),
    ("plain", 5, None, None, NOW_MS),
)
"""Model, charge, computed and reported cost, and the end of requests."""
SMALL = ProviderCosts(3, 250, 130, 2, 75, 2, 5)
LARGE = ProviderCosts(1, 30, 40)
ROUTED = ProviderCosts(reported=1, reported_nano=8)


async def settle_all(place: Place) -> str:
    digest = place.seed()
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for model, cost_nano, provider_nano, reported_nano, ended_ms in ENDS:
            end = settlement(
                cost_nano,
                ended_ms=ended_ms,
                provider_cost_nano=provider_nano,
                reported_cost_nano=reported_nano,
            )
            await ledger.settle(ledger.hold(key, replace(admission(), model=model)), end)
    return key_id_of(digest)


def read(
    place: Place,
    by: UsageGroup = "model",
    account: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> dict[str, ProviderCosts]:
    with place.open_books() as books:
        return books.usage.sum_costs(by, account=account, since_ms=since_ms, until_ms=until_ms)


async def test_costs_are_summed_by_model_day_and_key(place: Place) -> None:
    key_id = await settle_all(place)
    assert read(place) == {"small": SMALL, "large": LARGE, "routed": ROUTED}
    assert (SMALL.margin_nano, LARGE.margin_nano) == (120, -10)
    assert read(place, "key") == {key_id: ProviderCosts(4, 280, 170, 3, 83, 2, 5)}
    assert read(place, "day") == {
        "2023-11-14": ProviderCosts(2, 200, 130, 2, 83, 1, 5),
        "2023-11-15": ProviderCosts(2, 80, 40, 1, 0, 1, 0),
    }
    place.assert_sound()


async def test_costs_are_cut_by_account_and_time(place: Place) -> None:
    """Parts of days are summed as whole ones are."""
    await settle_all(place)
    place.add_account("b")
    everything = read(place)
    assert read(place, account="a") == everything
    assert read(place, account="b") == {}
    for cut in (0, 1):
        first_day = read(place, until_ms=LATER_MS // DAY_MS * DAY_MS + cut)
        assert first_day == {"small": ProviderCosts(2, 200, 130, 1, 75, 1, 5), "routed": ROUTED}
        rest = read(place, since_ms=LATER_MS // DAY_MS * DAY_MS + cut)
        assert rest == {"small": ProviderCosts(1, 50, 0, 1, 0, 1, 0), "large": LARGE}


async def test_what_is_not_charged_has_no_cost(place: Place) -> None:
    """A void is none of the margin, whatever its provider bills for it."""
    digest = place.seed()
    outcome: Outcome = "caller_left"
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        end = settlement(0, outcome=outcome, provider_cost_nano=3, reported_cost_nano=4)
        await ledger.settle(ledger.hold(key, admission()), end)
        settled = ledger.hold(key, admission())
        await ledger.wait_admitted(settled)
        await ledger.settle(settled, settlement(1, provider_cost_nano=3))
    assert read(place) == {"demo/echo": ProviderCosts(1, 1, 3)}
    place.assert_sound()
