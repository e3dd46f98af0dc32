"""Changes of prices as events."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import pytest

from gateway.base.money import Price
from gateway.base.prices import FREE_OF_CHARGE, PriceList, PriceRule
from gateway.extras.reloads import prices
from tests.ledger.contract.kit import Place
from tests.support.books import read_events

BASE: Final = Price(3 * 10**9, 15 * 10**9, 3 * 10**8, 3 * 10**9)
DEARER: Final = Price(4 * 10**9, 15 * 10**9, 3 * 10**8, 3 * 10**9)
FAST: Final = PriceRule(DEARER, speed="fast")
LONG: Final = PriceRule(DEARER, input_above=200_000)
WITH_TOOL: Final = Price(
    *(3 * 10**9, 15 * 10**9, 3 * 10**8, 3 * 10**9),
    reported=1_200_000,
    tools=MappingProxyType({"web_fetch": 10**7}),
)


def note(place: Place, **lists: PriceList) -> list[tuple[str | None, str]]:
    """Start or reload with these prices; return all events so far, the latest first."""
    with place.open_books() as books:
        prices.note_prices(books, lists, pid=7)
        events = read_events(books, 20, prices.PRICE_CHANGE)
        assert {(one.actor, one.account) for one in events} <= {("system", None)}
        return [(one.target, one.detail) for one in events]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (PriceList(BASE), PriceList(DEARER), "input 3.00 → 4.00"),
        (
            FREE_OF_CHARGE,
            PriceList(BASE),
            "input 0.00 → 3.00, cached_input 0.00 → 0.30, cache_write 0.00 → 3.00, output 0.00 → 15.00",
        ),
        (PriceList(BASE), PriceList(WITH_TOOL), "web_fetch none → 0.01, reported none → 1.2"),
        (
            PriceList(BASE, (FAST,)),
            PriceList(BASE, (PriceRule(BASE, speed="fast"),)),
            "input (speed fast) 4.00 → 3.00",
        ),
        (PriceList(BASE, (FAST, LONG)), PriceList(BASE, (LONG, FAST)), "the order of its rules"),
    ],
)
def test_a_change_of_prices_is_an_event_with_both(
    place: Place, before: PriceList, after: PriceList, told: str
) -> None:
    assert note(place, m=before, other=PriceList(BASE)) == []
    assert note(place, m=before, other=PriceList(BASE)) == []
    assert note(place, m=after, other=PriceList(BASE)) == [("m", told)]
    assert note(place, m=after) == [("m", told)]


def test_a_model_that_comes_back_is_compared_with_when_it_was_seen_last(place: Place) -> None:
    note(place, m=PriceList(BASE))
    assert note(place) == []
    assert note(place, m=PriceList(DEARER)) == [("m", "input 3.00 → 4.00")]


def test_an_event_names_a_bounded_number_of_amounts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.extras.reloads.prices.MAX_TOLD", 1)
    note(place, m=FREE_OF_CHARGE)
    assert note(place, m=PriceList(BASE)) == [("m", "input 0.00 → 3.00, and 3 more")]


@pytest.mark.parametrize("kept", ['["{\\"input\\":1,\\"a_later_amount\\":2}"]', "5"])
def test_prices_of_a_later_version_are_as_if_never_seen(place: Place, kept: str) -> None:
    """Else the task that reloads would end."""
    with place.open_books() as books:
        books.change("INSERT INTO model_prices VALUES (?, ?)", ("m", kept))
    assert note(place, m=PriceList(BASE)) == []
    assert note(place, m=PriceList(DEARER)) == [("m", "input 3.00 → 4.00")]
