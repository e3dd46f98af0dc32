"""Amounts of a list are read exactly."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.model_settings import MAX_PRICE
from gateway.money import NANO
from gateway.price_lists.records import PriceListError, read_amount, stack_tiers


@pytest.mark.parametrize(
    ("value", "power", "nano"),
    [
        ("0.15", 0, 150_000_000),
        ("1.5e-07", 6, 150_000_000),
        ("1.88e-05", 6, 18_800_000_000),
        ("9.999999999999999e-07", 6, 1_000_000_000),
        ("5e-16", 6, 0),
        ("1.5e-15", 6, 2),
        ("1e-999999999", 6, 0),
        ("0e999999999", 6, 0),
        ("4", -3, 4_000_000),
        (str(MAX_PRICE), 0, MAX_PRICE * NANO),
    ],
)
def test_an_amount_is_exact_or_rounded_to_a_nano_unit(value: str, power: int, nano: int) -> None:
    assert read_amount(Decimal(value), "x", power=power) == nano


@given(st.integers(0, MAX_PRICE * NANO))
def test_a_price_per_token_is_a_price_per_million(nano: int) -> None:
    assert read_amount(Decimal(nano).scaleb(-15), "x", power=6) == nano


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, "1", 1.5, [], Decimal(-1), -1, MAX_PRICE + 1, Decimal("1e999999999")),
        *(10**70, Decimal("NaN"), Decimal("Infinity")),
    ],
)
def test_what_is_no_price_is_refused(value: object) -> None:
    with pytest.raises(PriceListError, match=r"^here: must be a (number|price from 0 to 1000000)"):
        read_amount(value, "here")


def test_a_tier_has_what_is_said_below_it() -> None:
    base = {"input": 1, "output": 2}
    steps = {300: {"output": 5}, 200: {"input": 3}}
    assert stack_tiers(base, steps) == (
        (200, {"input": 3, "output": 2}),
        (300, {"input": 3, "output": 5}),
    )
