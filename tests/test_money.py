"""Amounts, prices of usage, and what is charged."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.money import (
    FREE,
    MAX_AMOUNT_NANO,
    NANO,
    Price,
    Tokens,
    compute_cost_nano,
    format_amount,
    format_tokens,
    parse_amount_nano,
    read_charged_nano,
)
from gateway.prices import Asked, BillTerms
from gateway.usage import Expected, Metered, Reported, UsageLimits, meter
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

amounts = st.integers(-MAX_AMOUNT_NANO, MAX_AMOUNT_NANO)
counts = st.integers(0, 10**9)
prices = st.builds(Price, counts, counts, counts, counts, counts)
tokens = st.builds(Tokens, counts, counts, counts, counts)


@fuzz(150)
@given(amounts)
def test_every_amount_comes_back_as_it_was_written(nano: int) -> None:
    text = format_amount(nano)
    assert parse_amount_nano(text) == nano
    assert Fraction(text) == Fraction(nano, NANO)


@fuzz(150)
@given(amounts)
def test_amounts_are_written_with_the_digits_that_matter(nano: int) -> None:
    """At least two decimals, at most nine, no trailing zero beyond two, no exponent, no -0."""
    whole, _, decimals = format_amount(nano).removeprefix("-").partition(".")
    assert whole == str(abs(nano) // NANO)
    assert 2 <= len(decimals) <= 9
    assert len(decimals) == 2 or not decimals.endswith("0")
    assert format_amount(nano).startswith("-") == (nano < 0)


@fuzz(150)
@given(st.decimals(-(10**10), 10**10, places=12) | st.decimals(-3, 3, places=9))
def test_no_decimal_is_read_as_another(value: Decimal) -> None:
    """An accepted amount is exactly the number written, whatever its length."""
    text = f"{value:f}"
    exact = Fraction(text) * NANO
    if exact.denominator == 1 and abs(exact) <= MAX_AMOUNT_NANO:
        assert parse_amount_nano(text) == exact
    else:
        with pytest.raises(ValueError, match=r"is finer|is beyond"):
            parse_amount_nano(text)


@fuzz(150)
@given(tokens, prices)
def test_cost_is_the_exact_sum_rounded_up_once(used: Tokens, price: Price) -> None:
    exact = sum(
        (
            Fraction(getattr(used, name) * getattr(price, name), 10**6)
            for name in ("input", "cached_input", "cache_write", "output")
        ),
        Fraction(price.request),
    )
    cost = compute_cost_nano(used, price)
    assert type(cost) is int
    assert cost == math.ceil(exact)


def test_three_thirds_of_a_nano_unit_round_up_together() -> None:
    """One rounding a request: three classes of 0.4 each are 1.2, so 2 and not 3."""
    price = Price(400_000, 400_000, 400_000, 0)
    assert compute_cost_nano(Tokens(1, 1, 0, 1), price) == 2


@each_row(
    ("used", "cost"),
    [(Tokens(), 0), (Tokens(output=1), 1), (Tokens(input=10**6), 1), (Tokens(input=10**6 + 1), 2)],
)
def test_the_least_fraction_costs_a_nano_unit(used: Tokens, cost: int) -> None:
    assert compute_cost_nano(used, Price(1, 1, 1, 1)) == cost


@fuzz(50)
@given(tokens)
def test_free_is_free(used: Tokens) -> None:
    assert compute_cost_nano(used, FREE) == 0


@fuzz(150)
@given(st.integers(0, 10**15 - 1))
def test_a_reported_amount_is_read_with_its_digits(nano: int) -> None:
    """A parser makes a binary fraction of it; fifteen digits come back as they were sent."""
    assert read_charged_nano(json.loads(format_amount(nano))) == nano


@each_row(
    ("used", "text"),
    [
        (Tokens(input=98, cached_input=20, cache_write=3, output=50, cache_write_1h=2),
         "input 123, of these cached 20, written to the cache 5; output 50"),
        (Tokens(input=3, cached_input=4), "input 7, of these cached 4; output 0"),
        (Tokens(output=1), "input 0; output 1"),
    ],
)  # fmt: skip
def test_tokens_in_words_add_up(used: Tokens, text: str) -> None:
    assert format_tokens(used) == text


def test_a_request_price_is_added_even_without_tokens() -> None:
    assert compute_cost_nano(Tokens(), Price(1, 1, 1, 1, request=7)) == 7


@fuzz(100)
@given(tokens)
def test_total_is_the_sum_of_the_classes(used: Tokens) -> None:
    classes = (used.input, used.cached_input, used.cache_write, used.cache_write_1h, used.output)
    assert used.total == sum(classes)
    assert Tokens(1, 2, 4, 8, 16).total == 31


REPORTED = Tokens(9, 2, 1, 5)
EXPECTED = Expected(7, UsageLimits(10**6, 10**6, 50))
Calls = dict[str, int]
ONE, TWO = {"web_search": 1}, {"web_search": 3, "file_search": 2}


@each_row(
    ("reported", "text_bytes", "complete", "tokens", "estimated"),
    [
        (None, 0, False, Tokens(7), True),
        (None, 9, True, Tokens(7, output=3), True),
        (REPORTED, 0, False, REPORTED, False),
        (REPORTED, 20, False, REPORTED, False),
        (REPORTED, 21, False, Tokens(9, 2, 1, 6), True),
        (REPORTED, 21, True, REPORTED, False),
        # A half that cannot be is estimated, and the other one stays: zeros beside a reply are
        # no count, and there is a limit to each.
        (Tokens(), 400, True, Tokens(7, output=50), True),
        (Tokens(output=5), 400, True, Tokens(7, output=5), True),
        (Tokens(9), 4, True, Tokens(9, output=1), True),
        (Tokens(10**6, output=10**6), 4, True, Tokens(10**6, output=10**6), False),
        (Tokens(10**6, 1, output=5), 4, True, Tokens(7, output=5), True),
        (Tokens(9, 2, 1, 10**6 + 1), 4, True, Tokens(9, 2, 1, 1), True),
        (Tokens(9), 0, True, Tokens(9), False),
        (Tokens(9), 4, False, Tokens(9, output=1), True),
        # No estimate is above what the caller's limit and the model's cap allow.
        (None, 10**9, True, Tokens(7, output=50), True),
        (REPORTED, 10**9, False, Tokens(9, 2, 1, 50), True),
        (Tokens(9, output=80), 10**9, False, Tokens(9, output=80), False),
    ],
)
def test_charged_is_the_report_or_what_was_delivered_before_it_is_complete(
    reported: Tokens | None, text_bytes: int, tokens: Tokens, *, complete: bool, estimated: bool
) -> None:
    told = Reported() if reported is None else Reported(reported, True, True)
    metered = meter(told, text_bytes, EXPECTED, complete=complete)
    assert (metered.tokens, metered.estimated) == (tokens, estimated)
    assert metered.unreported == (complete and estimated)


@each_row(
    ("asked", "served", "terms", "estimated"),
    [
        (BillTerms(), BillTerms(), BillTerms(), False),
        (BillTerms(), BillTerms("priority"), BillTerms("priority"), False),
        (BillTerms("priority"), BillTerms("standard"), BillTerms("standard"), False),
        (BillTerms("priority"), BillTerms(), BillTerms("priority"), True),
        (BillTerms("standard"), BillTerms(), BillTerms(), False),
        (BillTerms(speed="fast"), BillTerms("standard"), BillTerms("standard", "fast"), True),
        (BillTerms(speed="fast"), BillTerms(speed="standard"), BillTerms(speed="standard"), False),
        (BillTerms(inference_geo="us"), BillTerms(), BillTerms(inference_geo="us"), True),
    ],
)
def test_charged_are_the_terms_served_or_else_those_asked_for(
    asked: BillTerms, served: BillTerms, terms: BillTerms, *, estimated: bool
) -> None:
    expected = replace(EXPECTED, asked=Asked(asked))
    metered = meter(Reported(REPORTED, True, True, terms=served), 0, expected, complete=True)
    assert metered == Metered(REPORTED, estimated, terms=terms)


@each_row(
    ("asked", "reported", "calls", "estimated"),
    [
        ({}, None, {}, False),
        (ONE, None, ONE, True),
        (ONE, {}, ONE, True),
        (ONE, {"web_search": 0}, {}, False),
        (ONE, TWO, TWO, False),
        (ONE, {"file_search": 2}, ONE | {"file_search": 2}, True),
        (ONE, {"web_search": 10**6}, {"web_search": 10**4}, False),
        ({}, {"a b": 1, "\ud800": 1, "": 1, "x_y": 1}, {"x_y": 1}, False),
    ],
)
def test_calls_of_tools_are_those_reported_or_else_those_asked_for(
    asked: Calls, reported: Calls | None, calls: Calls, *, estimated: bool
) -> None:
    expected = replace(EXPECTED, asked=Asked(tool_calls=asked))
    metered = meter(Reported(REPORTED, True, True, reported), 0, expected, complete=True)
    assert metered == Metered(REPORTED, estimated, calls)


def test_a_report_of_the_beginning_alone_is_an_estimate_of_the_whole() -> None:
    metered = meter(Reported(REPORTED, True, True), 0, EXPECTED, complete=True, counted=False)
    assert metered == Metered(REPORTED, estimated=True, unreported=True)
