"""Amounts and costs as properties; `examples.txt` has them one by one."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.money import (
    FREE,
    MAX_AMOUNT_NANO,
    NANO,
    Price,
    Tokens,
    compute_cost_nano,
    format_amount,
    parse_amount_nano,
    read_charged_nano,
)
from tests.support.fuzz import fuzz

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


@fuzz(50)
@given(tokens)
def test_free_is_free(used: Tokens) -> None:
    assert compute_cost_nano(used, FREE) == 0


@fuzz(150)
@given(st.integers(0, 10**15 - 1))
def test_a_reported_amount_is_read_with_its_digits(nano: int) -> None:
    """A parser makes a binary fraction of it; fifteen digits come back as they were sent."""
    assert read_charged_nano(json.loads(format_amount(nano))) == nano


@fuzz(100)
@given(tokens)
def test_total_is_the_sum_of_the_classes(used: Tokens) -> None:
    classes = (used.input, used.cached_input, used.cache_write, used.cache_write_1h, used.output)
    assert used.total == sum(classes)
    assert Tokens(1, 2, 4, 8, 16).total == 31
