"""Price lists: which rule applies to what was served, and what a request may cost at most."""

from __future__ import annotations

from typing import Any

from gateway.money import Price, Tokens, compute_cost_nano
from gateway.prices import (
    AppliedPrice,
    Asked,
    BillTerms,
    PriceList,
    PriceRule,
    describe_rules,
    read_price,
)
from gateway.times import DAY_MINUTES, MINUTE_MS, Window
from tests.support.rows import each_row

M = 10**6
NOW_MS = 1_700_000_000_000
BASE = Price(10 * M, 40 * M, M, 12 * M)


def even(amount: int) -> Price:
    return Price(amount, amount, amount, amount)


LONG, PRIORITY, FAST, HOME = (even(factor * M) for factor in (20, 30, 60, 11))
PRICES = PriceList(
    BASE,
    (
        PriceRule(FAST, speed="fast"),
        PriceRule(PRIORITY, service_tier="priority", input_above=100),
        PriceRule(LONG, input_above=100),
        PriceRule(HOME, inference_geo="us"),
    ),
)
SMALL, LARGE = Tokens(100, output=5), Tokens(1, 50, 25, 5, 25)


@each_row(
    ("tokens", "terms", "price", "rule"),
    [
        (SMALL, BillTerms(), BASE, ""),
        (SMALL, BillTerms("standard", "standard", "global"), BASE, ""),
        (LARGE, BillTerms(), LONG, "input_above 100"),
        (SMALL, BillTerms("priority"), BASE, ""),
        (LARGE, BillTerms("priority"), PRIORITY, "input_above 100, service_tier priority"),
        (SMALL, BillTerms(speed="fast"), FAST, "speed fast"),
        (LARGE, BillTerms("priority", "fast", "us"), FAST, "speed fast"),
        (SMALL, BillTerms(inference_geo="us"), HOME, "inference_geo us"),
        (LARGE, BillTerms(inference_geo="us"), LONG, "input_above 100"),
    ],
)
def test_the_first_rule_whose_conditions_hold_applies_to_all_tokens(
    tokens: Tokens, terms: BillTerms, price: Price, rule: str
) -> None:
    """All input counts towards `input_above`, cached or not."""
    assert PRICES.find(tokens, terms, NOW_MS) == AppliedPrice(price, rule)


@each_row(
    ("tokens", "asked", "price"),
    [
        (Tokens(50), Asked(), BASE),
        (Tokens(51), Asked(), LONG),  # the estimate may be half of what is counted
        (Tokens(51), Asked(BillTerms("priority")), PRIORITY),
        (Tokens(51), Asked(any_tier=True), PRIORITY),
        (Tokens(51), Asked(BillTerms("standard")), LONG),
        (Tokens(5), Asked(BillTerms("priority")), BASE),
        (Tokens(5), Asked(BillTerms(speed="fast")), FAST),
        (Tokens(5), Asked(BillTerms(inference_geo="us")), HOME),
        (Tokens(5), Asked(BillTerms(inference_geo="eu")), BASE),
    ],
)
def test_a_hold_takes_the_dearest_price_that_may_apply(
    tokens: Tokens, asked: Asked, price: Price
) -> None:
    assert PRICES.find_dearest(tokens, asked, NOW_MS).price == price


@each_row(
    ("rule", "priced"),
    [
        (PriceRule(LONG, service_tier="priority"), True),
        (PriceRule(LONG, service_tier="priority", speed="standard"), True),
        (PriceRule(LONG, service_tier="priority", input_above=100), False),
        (PriceRule(LONG, service_tier="priority", speed="fast"), False),
        (PriceRule(LONG, service_tier="priority", window=Window(until_ms=NOW_MS)), False),
        (PriceRule(LONG, service_tier="flex"), False),
    ],
)
def test_a_value_has_a_price_if_a_rule_asks_for_nothing_else(
    rule: PriceRule, *, priced: bool
) -> None:
    assert PriceList(BASE, (rule,)).has_rule("service_tier", "priority") == priced


def test_a_cheaper_rule_makes_no_hold_smaller() -> None:
    flex = PriceList(BASE, (PriceRule(Price(1, 1, 1, 1), service_tier="flex"),))
    assert flex.find_dearest(Tokens(5), Asked(BillTerms("flex")), NOW_MS).price == BASE
    assert flex.find(Tokens(5), BillTerms("flex"), NOW_MS).price == Price(1, 1, 1, 1)


def searches(count: int) -> dict[str, int]:
    return {"web_search": count}


def test_searches_and_all_classes_are_rounded_up_once() -> None:
    price = Price(
        10**9, 10**9, 10**9, 10**9, request=7, cache_write_1h=3 * 10**9, web_search=10 * 10**9
    )
    assert (
        compute_cost_nano(Tokens(1, 1, 1, 1, 1), price, searches(2))
        == 7 * 1000 + 2 * 10_000_000 + 7
    )
    assert compute_cost_nano(Tokens(), Price(0, 0, 0, 0, web_search=1), searches(1)) == 1
    odd = Price(1, 1, 1, 1, web_search=1)
    assert compute_cost_nano(Tokens(1, output=1), odd, searches(1)) == 1


def test_rules_are_described_as_the_configuration_has_them() -> None:
    told = describe_rules(PRICES)
    assert [one["why"] for one in told] == [rule.why for rule in PRICES.rules]
    assert told[1]["input_above"] == 100
    assert told[1]["service_tier"] == "priority"
    assert told[0]["speed"] == "fast"


# 1970-01-01 was a Thursday; the first hour of each day costs double.
HOUR_MS = 60 * MINUTE_MS
NIGHT = PriceRule(even(80 * M), window=Window(hours=((0, 60),)))
NIGHTS = PriceList(BASE, (NIGHT,))


@each_row(
    ("at_ms", "price"),
    [(0, NIGHT.price), (HOUR_MS - 1, NIGHT.price), (HOUR_MS, BASE), (24 * HOUR_MS, NIGHT.price)],
)
def test_a_rule_of_hours_holds_for_requests_of_these_hours(at_ms: int, price: Price) -> None:
    assert NIGHTS.find(SMALL, BillTerms(), at_ms) == AppliedPrice(
        price, "hours 00:00-01:00" if price is NIGHT.price else ""
    )
    assert NIGHTS.find_dearest(SMALL, Asked(), at_ms).price == price


MORNING, EVENING = Window(hours=((0, 720),)), Window(hours=((720, DAY_MINUTES),))


@each_row(
    ("first", "second", "conflict"),
    [
        ({"input_above": 1}, {"speed": "fast"}, True),
        ({"input_above": 1}, {"input_above": 2}, False),
        ({"input_above": 1, "speed": "fast"}, {"speed": "fast"}, False),
        ({"speed": "fast"}, {"speed": "standard"}, False),
        ({"speed": "fast"}, {"speed": "fast"}, False),
        ({"speed": "fast", "inference_geo": "us"}, {"speed": "fast", "input_above": 5}, True),
        ({"window": MORNING}, {"window": EVENING}, False),
        ({"window": MORNING}, {"speed": "fast"}, True),
        ({"window": MORNING, "speed": "fast"}, {"window": EVENING}, False),
        ({"window": Window(weekdays=(1,))}, {"window": MORNING}, True),
        ({"window": Window(weekdays=(1,))}, {"window": Window(((0, 9),), (1,))}, False),
        ({"window": Window(until_ms=DAY_MINUTES * MINUTE_MS)}, {"window": Window(weekdays=(4,))}, False),
        ({"window": Window(from_ms=0, until_ms=9)}, {"window": Window(from_ms=5)}, True),
    ],
)  # fmt: skip
def test_rules_conflict_if_both_may_hold_and_neither_contains_the_other(
    first: dict[str, Any], second: dict[str, Any], *, conflict: bool
) -> None:
    pair = PriceRule(LONG, **first), PriceRule(FAST, **second)
    for rules in (pair, pair[::-1]):
        assert list(PriceList(BASE, rules).find_conflicts()) == ([rules] if conflict else [])


def test_media_and_tools_cost_their_own_prices_within_the_one_rounding() -> None:
    price = Price(1, 1, 1, 1, audio_input=3, image_input=0, audio_output=5, tools={"maps": 7})
    tokens = Tokens(
        10, 20, output=30, media={"audio_input": 4, "image_input": 2, "audio_output": 6}
    )
    scaled = (10 - 4 - 2) * 1 + 4 * 3 + 2 * 0 + 20 * 1 + (30 - 6) * 1 + 6 * 5
    calls = {"maps": 2, "given away": 9}
    assert compute_cost_nano(tokens, price, calls) == -(-scaled // M) + 2 * 7
    silent = Price(1, 1, 1, 1)
    assert compute_cost_nano(tokens, silent) == compute_cost_nano(Tokens(10, 20, output=30), silent)


@each_row(
    ("factor", "bill", "cost"),
    [(M, 5, 5), (1_200_000, 5, 6), (1_200_000, 6, 8), (1, 1, 1), (1, 0, 0), (1000 * M, 7, 7000)],
)
def test_a_bill_times_its_factor_is_rounded_up_once(factor: int, bill: int, cost: int) -> None:
    price = Price(9, 9, 9, 9, request=3, reported=factor)
    assert compute_cost_nano(LARGE, price, searches(1), bill) == cost + 3
    without = Price(9, 9, 9, 9, request=3)
    plain = compute_cost_nano(LARGE, without, searches(1))
    assert compute_cost_nano(LARGE, price, searches(1)) == plain
    assert compute_cost_nano(LARGE, without, searches(1), bill) == plain


@each_row(
    "price",
    [
        BASE,
        Price(0, 0, 0, 0),
        Price(10**21, 10**21, 10**21, 10**21, 10**21, 10**21, 10**21),
        Price(1, 2, 3, 4, 5, 6, 7, 0, None, 9, None, 1_200_000, {"maps": 3, "x_search": 10**15}),
        Price(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0),
    ],
)
@each_row("rule", ["", "input_above 200000, speed fast", 'service_tier größer 🙂\t"\\'])
def test_the_text_of_a_price_tells_all_of_it(price: Price, rule: str) -> None:
    applied = AppliedPrice(price, rule)
    again = read_price(applied.text)
    assert again == applied
    assert (again.text, again.id) == (applied.text, applied.id)
    assert 0 <= applied.id < 2**63


def test_prices_that_differ_have_different_ids() -> None:
    found = {
        AppliedPrice(Price(1, 1, 1, 1, tools=tools, audio_input=audio), rule).id
        for tools in ({}, {"a": 1}, {"a": 2}, {"b": 1})
        for audio in (None, 0, 1)
        for rule in ("", "x")
    }
    assert len(found) == 4 * 3 * 2
