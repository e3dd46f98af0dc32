"""Prices in gateway.toml: exact, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.settings import OPENAI, refusal, with_price

from gateway.config_settings import MAX_PRICE, MAX_TOKENS
from gateway.money import FREE, Price, Tokens, compute_cost_nano


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        ("0.15", 150_000_000),
        ("0.1", 100_000_000),
        ("0.0028", 2_800_000),
        ("3", 3_000_000_000),
        ("3.00", 3_000_000_000),
        ("0.000000001", 1),
        ("1e-9", 1),
        ("1e3", 1_000_000_000_000),
        ("0.3000000000000000000000000000000000000000", 300_000_000),
        ("123456.123456789", 123_456_123_456_789),
        (str(MAX_PRICE), MAX_PRICE * 10**9),
    ],
)
def test_a_price_is_kept_exactly(tmp_path: Path, written: str, nano: int) -> None:
    price = with_price(tmp_path, f"{{ input = {written}, output = 1 }}").models["m"].price
    assert (price.input, type(price.input)) == (nano, int)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("0.0000000001", "is finer than a nano-unit"),
        ("1.00000000000000000000000000000000001", "is finer than a nano-unit"),
        ("1e-999999999", "is finer than a nano-unit"),
        ("-1", "must be a decimal number from 0 to"),
        ("-0.000000001", "must be a decimal number from 0 to"),
        ("1000001", "must be a decimal number from 0 to"),
        ("1e999999999", "must be a decimal number from 0 to"),
        ("nan", "must be a decimal number from 0 to"),
        ("inf", "must be a decimal number from 0 to"),
        ("true", "must be a decimal number from 0 to 1000000, not true"),
        ('"0.15"', 'must be a decimal number from 0 to 1000000, not "0.15"'),
        ("2026-11-21", "must be a decimal number from 0 to 1000000, not a date or time"),
        ("0x" + "f" * 6000, "must be a decimal number from 0 to 1000000, not a number that long"),
    ],
)
def test_a_price_that_is_none_is_refused(tmp_path: Path, written: str, problem: str) -> None:
    toml = (
        f'{OPENAI}[models."m"]\nroutes = ["openai/m"]\nprice = {{ input = {written}, output = 1 }}'
    )
    error = refusal(tmp_path, toml)
    assert error.startswith(f'gateway.toml: [models."m"] price.input: {problem}')


def test_free_is_said_on_purpose(tmp_path: Path) -> None:
    model = with_price(tmp_path, '"free"').models["m"]
    assert model.price is FREE
    assert model.free


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        ("{ input = 0, output = 0.0 }", 'price: is 0 throughout; write price = "free" if that'),
        ("{ output = 1 }", "price.input: is missing"),
        ("{ input = 1 }", "price.output: is missing"),
        ("{ input = 1, output = 1, ouput = 1 }", 'price.ouput: unknown key; did you mean "output"'),
        ("0.15", 'price: must be { input = 0.15, output = 0.60 } or "free", not 0.15'),
        ('"gratis"', 'price: must be { input = 0.15, output = 0.60 } or "free", not "gratis"'),
    ],
)
def test_nothing_is_free_by_accident(tmp_path: Path, price: str, problem: str) -> None:
    toml = f'{OPENAI}[models."m"]\nroutes = ["openai/m"]\nprice = {price}\n'
    assert refusal(tmp_path, toml).startswith(f'gateway.toml: [models."m"] {problem}')


def test_a_price_per_request_alone_is_a_price(tmp_path: Path) -> None:
    price = with_price(tmp_path, "{ input = 0, output = 0, request = 0.01 }").models["m"].price
    assert price == Price(0, 0, 0, 0, 10_000_000)


def test_a_model_without_a_price_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, OPENAI + '[models."m"]\nroutes = ["openai/m"]')
    assert error == (
        'gateway.toml: [models."m"] price: is missing; '
        'it is a table of prices per million tokens, or "free"'
    )


def test_the_dearest_request_fits_the_ledger() -> None:
    """Usage up to 10 × the largest limits at the highest prices stays within SQLite's integers."""
    most = MAX_PRICE * 10**9
    tokens = Tokens(input=10 * MAX_TOKENS, output=10 * MAX_TOKENS)
    assert compute_cost_nano(tokens, Price(most, most, most, most, most)) < 2**63
