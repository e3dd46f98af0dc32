"""Price lists: which rule applies to what was served, and what a request may cost at most."""

from __future__ import annotations

import pytest

from gateway.money import Price, Tokens, compute_cost_nano
from gateway.prices import (
    AppliedPrice,
    Asked,
    PriceList,
    PriceRule,
    Terms,
    describe_rules,
    name_tier,
)

M = 10**6
BASE = Price(10 * M, 40 * M, M, 12 * M)
LONG, PRIORITY, FAST, HOME = (Price(*[factor * M] * 4) for factor in (20, 30, 60, 11))
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


@pytest.mark.parametrize(
    ("tokens", "terms", "price", "rule"),
    [
        (SMALL, Terms(), BASE, ""),
        (SMALL, Terms("standard", "standard", "global"), BASE, ""),
        (LARGE, Terms(), LONG, "input_above 100"),
        (SMALL, Terms("priority"), BASE, ""),
        (LARGE, Terms("priority"), PRIORITY, "input_above 100, service_tier priority"),
        (SMALL, Terms(speed="fast"), FAST, "speed fast"),
        (LARGE, Terms("priority", "fast", "us"), FAST, "speed fast"),
        (SMALL, Terms(inference_geo="us"), HOME, "inference_geo us"),
        (LARGE, Terms(inference_geo="us"), LONG, "input_above 100"),
    ],
)
def test_the_first_rule_whose_conditions_hold_applies_to_all_tokens(
    tokens: Tokens, terms: Terms, price: Price, rule: str
) -> None:
    """All input counts towards `input_above`, cached or not."""
    assert PRICES.find(tokens, terms) == AppliedPrice(price, rule)


@pytest.mark.parametrize(
    ("tokens", "asked", "price"),
    [
        (Tokens(50), Asked(), BASE),
        (Tokens(51), Asked(), LONG),  # the estimate may be half of what is counted
        (Tokens(51), Asked(Terms("priority")), PRIORITY),
        (Tokens(51), Asked(any_tier=True), PRIORITY),
        (Tokens(51), Asked(Terms("standard")), LONG),
        (Tokens(5), Asked(Terms("priority")), BASE),
        (Tokens(5), Asked(Terms(speed="fast")), FAST),
        (Tokens(5), Asked(Terms(inference_geo="us")), HOME),
        (Tokens(5), Asked(Terms(inference_geo="eu")), BASE),
    ],
)
def test_a_hold_takes_the_dearest_price_that_may_apply(
    tokens: Tokens, asked: Asked, price: Price
) -> None:
    assert PRICES.find_dearest(tokens, asked).price == price


@pytest.mark.parametrize(
    ("rule", "priced"),
    [
        (PriceRule(LONG, service_tier="priority"), True),
        (PriceRule(LONG, service_tier="priority", speed="standard"), True),
        (PriceRule(LONG, service_tier="priority", input_above=100), False),
        (PriceRule(LONG, service_tier="priority", speed="fast"), False),
        (PriceRule(LONG, service_tier="flex"), False),
    ],
)
def test_a_value_has_a_price_if_a_rule_asks_for_nothing_else(
    rule: PriceRule, *, priced: bool
) -> None:
    assert PriceList(BASE, (rule,)).has_rule("service_tier", "priority") == priced


def test_a_cheaper_rule_makes_no_hold_smaller() -> None:
    flex = PriceList(BASE, (PriceRule(Price(1, 1, 1, 1), service_tier="flex"),))
    assert flex.find_dearest(Tokens(5), Asked(Terms("flex"))).price == BASE
    assert flex.find(Tokens(5), Terms("flex")).price == Price(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("word", "tier"),
    [
        ("default", "standard"),
        ("standard_only", "standard"),
        ("standard", "standard"),
        ("fast", "priority"),
        ("priority", "priority"),
        ("flex", "flex"),
        ("auto", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_a_tier_has_one_name(word: object, tier: str) -> None:
    assert name_tier(word) == tier


def test_searches_and_all_classes_are_rounded_up_once() -> None:
    price = Price(
        10**9, 10**9, 10**9, 10**9, request=7, cache_write_1h=3 * 10**9, web_search=10 * 10**9
    )
    assert compute_cost_nano(Tokens(1, 1, 1, 1, 1), price, 2) == 7 * 1000 + 2 * 10_000_000 + 7
    assert compute_cost_nano(Tokens(), Price(0, 0, 0, 0, web_search=1), 1) == 1
    odd = Price(1, 1, 1, 1, web_search=1)
    assert compute_cost_nano(Tokens(1, output=1), odd, 1) == 1


def test_rules_are_described_as_the_configuration_has_them() -> None:
    told = describe_rules(PRICES)
    assert [one["why"] for one in told] == [rule.why for rule in PRICES.rules]
    assert told[1]["input_above"] == 100
    assert told[1]["service_tier"] == "priority"
    assert told[0]["speed"] == "fast"
