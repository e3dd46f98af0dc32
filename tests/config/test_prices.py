"""Prices in gateway.toml are exact or refused."""

from __future__ import annotations

from pathlib import Path

from gateway.config.settings import MAX_PRICE
from gateway.money import NANO, Price
from gateway.prices import FREE_OF_CHARGE
from tests.support.rows import each_row
from tests.support.settings import MODEL, OPENAI, load, refusal, with_price


@each_row(
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
    price = with_price(tmp_path, f"{{ input = {written}, output = 1 }}").models["m"].prices.base
    assert (price.input, type(price.input)) == (nano, int)


@each_row(
    ("written", "problem"),
    [
        ("0.0000000001", "is finer than a nano-unit"),
        ("1.00000000000000000000000000000000001", "is finer than a nano-unit"),
        ("1e-999999999", "is finer than a nano-unit"),
        ("-1", "must be a decimal number from 0 to"),
        ("-0.000000001", "must be a decimal number from 0 to"),
        ("1000000000001", "must be a decimal number from 0 to"),
        ("1e999999999", "must be a decimal number from 0 to"),
        ("nan", "must be a decimal number from 0 to"),
        ("inf", "must be a decimal number from 0 to"),
        ("true", "must be a decimal number from 0 to 1000000000000, not true"),
        ('"0.15"', 'must be a decimal number from 0 to 1000000000000, not "0.15"'),
        ("2026-11-21", "must be a decimal number from 0 to 1000000000000, not a date or time"),
        (
            "0x" + "f" * 6000,
            "must be a decimal number from 0 to 1000000000000, not a number that long",
        ),
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
    assert model.prices is FREE_OF_CHARGE
    assert model.free


@each_row(
    ("price", "problem"),
    [
        ("{ input = 0, output = 0.0 }", 'price: has only zeros; write price = "free" for a free'),
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
    price = (
        with_price(tmp_path, "{ input = 0, output = 0, request = 0.01 }").models["m"].prices.base
    )
    assert price == Price(0, 0, 0, 0, 10_000_000)


def test_a_model_without_a_price_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, OPENAI + '[models."m"]\nroutes = ["openai/m"]')
    assert error == (
        'gateway.toml: [models."m"] price: is missing; '
        'it is a table of prices per million tokens, or "free"'
    )


RULES = """
[[models.m.price_when]]
service_tier = "fast"
price = { input = 2, output = 5 }

[[models.m.price_when]]
input_above = 272_000
price = { input = 3, output = 4, cached_input = 0.3, web_search = 20 }
"""


def test_rules_are_read_in_their_order(tmp_path: Path) -> None:
    price = "{ input = 1, output = 2, request = 0.5, web_search = 10 }"
    model = load(
        tmp_path, f'{OPENAI}[models.m]\nroutes = ["openai/m"]\nprice = {price}\n{RULES}'
    ).models["m"]
    first, second = model.prices.rules
    assert (first.why, second.why) == ("service_tier priority", "input_above 272000")
    # Fees that a rule does not name are the model's own; all else is the rule's.
    assert first.price == Price(
        2 * NANO, 5 * NANO, 2 * NANO, 2 * NANO, NANO // 2, 32 * NANO // 10, 10 * NANO
    )
    assert second.price.web_search == 20 * NANO
    assert second.price.cached_input == 3 * NANO // 10


def test_an_hour_in_the_cache_costs_1_6_times_five_minutes(tmp_path: Path) -> None:
    price = with_price(tmp_path, "{ input = 5, output = 1, cache_write = 6.25 }")
    assert price.models["m"].prices.base.cache_write_1h == 10 * NANO
    own = "{ input = 5, output = 1, cache_write_1h = 9 }"
    assert with_price(tmp_path, own).models["m"].prices.base.cache_write_1h == 9 * NANO


@each_row(
    ("rule", "problem"),
    [
        ("price = { input = 1, output = 1 }", "price_when[0].price: needs a condition beside it"),
        ('speed = "fast"', "price_when[0].price: is missing"),
        ('sped = "fast"\nprice = { input = 1, output = 1 }', "price_when[0].sped: unknown key"),
        (
            'speed = "fast"\nprice = { input = 1 }',
            "price_when[0].price.output: is missing",
        ),
        (
            'service_tier = "auto"\nprice = { input = 1, output = 1 }',
            "price_when[0].service_tier: must be a tier that a reply can name",
        ),
        (
            "input_above = -1\nprice = { input = 1, output = 1 }",
            "price_when[0].input_above: must be a whole number",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused(tmp_path: Path, rule: str, problem: str) -> None:
    toml = f"{OPENAI}{MODEL}\n[[models.m.price_when]]\n{rule}\n"
    assert refusal(tmp_path, toml).startswith(f'gateway.toml: [models."m"] {problem}')


def test_a_free_model_has_no_rules(tmp_path: Path) -> None:
    toml = f'{OPENAI}[models.m]\nroutes = ["openai/m"]\nprice = "free"\n{RULES}'
    assert "price_when: must be left out where the model is free" in refusal(tmp_path, toml)


def test_what_a_model_allows_is_known_by_name(tmp_path: Path) -> None:
    toml = f'{OPENAI}{MODEL}allow = ["web_search", "plugins"]\n'
    assert load(tmp_path, toml).models["m"].allow == {"web_search", "plugins"}
    unknown = f'{OPENAI}{MODEL}allow = ["plugin"]\n'
    assert 'allow: has "plugin"; did you mean "plugins"?' in refusal(tmp_path, unknown)
