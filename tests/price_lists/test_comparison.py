"""Prices agree with a list, drift from it, or cannot be compared."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway.money import NANO, Price
from gateway.price_lists.comparison import Comparison, Difference, overlay
from tests.price_lists.lists import compare_text, genai, litellm, model

PRICE = "price = { input = 3, cached_input = 0.3, output = 15 }"
SAME = {"input_mtok": 3, "cache_read_mtok": 0.3, "output_mtok": 15}
TIERS = {
    "input_mtok": {"base": 3, "tiers": [{"start": 200000, "price": 6}]},
    "cache_read_mtok": {"base": 0.3, "tiers": [{"start": 200000, "price": 0.6}]},
    "output_mtok": {"base": 15, "tiers": [{"start": 200000, "price": 22.5}]},
}
TIER = "{ input_above = 200_000, price = { input = 6, cached_input = 0.6, output = 22.5 } }"


def only(found: list[Comparison]) -> Comparison:
    (one,) = found
    return one


def diff(name: str, old: str | None, new: str | None) -> Difference:
    nano = (None if one is None else int(Decimal(one) * NANO) for one in (old, new))
    return Difference(name, *nano)


@pytest.mark.parametrize(
    ("listed", "differences"),
    [
        (SAME, []),
        (SAME | {"input_mtok": 4}, [diff("input", "3", "4")]),
        (SAME | {"cache_read_mtok": 0.31}, [diff("cached_input", "0.3", "0.31")]),
        (SAME | {"cache_write_mtok": 3.75}, [diff("cache_write", "3", "3.75")]),
        ({"input_mtok": 3}, []),
        (SAME | {"output_mtok": 0}, [diff("output", "15", "0")]),
    ],
)
def test_only_what_the_list_says_is_compared(
    tmp_path: Path, listed: dict[str, Any], differences: list[Difference]
) -> None:
    one = only(compare_text(tmp_path, model(PRICE), genai({"m": listed})))
    assert list(one.differences) == differences
    assert one.state == ("drifts" if differences else "agrees")
    assert (one.proposed is None) is not bool(differences)


def test_both_formats_say_the_same(tmp_path: Path) -> None:
    listed = {
        "input_cost_per_token": 3e-06,
        "cache_read_input_token_cost": 3e-07,
        "output_cost_per_token": 1.5e-05,
        "input_cost_per_token_above_200k_tokens": 6e-06,
        "cache_read_input_token_cost_above_200k_tokens": 6e-07,
        "output_cost_per_token_above_200k_tokens": 2.25e-05,
    }
    toml = model(f"{PRICE}\nprice_when = [{TIER}]")
    for text in (litellm({"m": listed}), genai({"m": TIERS})):
        assert only(compare_text(tmp_path, toml, text)).state == "agrees"


@pytest.mark.parametrize(
    ("rules", "listed", "differences", "above"),
    [
        ("", TIERS, [diff("output (input_above 200000)", None, "22.5")], [200_000]),
        (TIER, SAME, [diff("output (input_above 200000)", "22.5", None)], []),
        (
            TIER.replace("= 6,", "= 7,"),
            TIERS,
            [diff("input (input_above 200000)", "7", "6")],
            [200_000],
        ),
        (
            TIER.replace("200_000", "100_000"),
            TIERS,
            [
                diff("output (input_above 100000)", "22.5", None),
                diff("output (input_above 200000)", None, "22.5"),
            ],
            [200_000],
        ),
    ],
)
def test_tiers_are_rules(
    tmp_path: Path,
    rules: str,
    listed: dict[str, Any],
    differences: list[Difference],
    above: list[int],
) -> None:
    toml = model(f"{PRICE}\nprice_when = [{rules}]")
    one = only(compare_text(tmp_path, toml, genai({"m": listed})))
    assert list(one.differences) == differences
    assert one.proposed is not None
    assert [rule.input_above for rule in one.proposed.rules] == above


def test_new_tiers_stand_before_those_of_shorter_inputs(tmp_path: Path) -> None:
    """The first rule that holds applies; rules about something else keep their places."""
    fast = '{ speed = "fast", price = { input = 30, output = 150 } }'
    low = TIER.replace("200_000", "100_000")
    listed = {"input_mtok": {"base": 3, "tiers": [{"start": n, "price": n} for n in (9, 100000)]}}
    toml = model(f"{PRICE}\nprice_when = [{fast}, {low}]")
    one = only(compare_text(tmp_path, toml, genai({"m": listed})))
    assert one.proposed is not None
    found = [(rule.speed, rule.input_above) for rule in one.proposed.rules]
    assert found == [("fast", None), (None, 100_000), (None, 9)]
    assert one.notes == ("the rule speed fast has no counterpart",)


@pytest.mark.parametrize(
    ("lines", "route", "state", "notes"),
    [
        (PRICE, "openai/other", "not in the list", ()),
        (PRICE, "azure/m", "not in the list", ()),
        ('price = "free"', "openai/m", "not compared", ("it is free here",)),
        (PRICE, "openai/image", "not compared", ("the list has no price of tokens for it",)),
    ],
)
def test_what_cannot_be_compared_does_not_drift(
    tmp_path: Path, lines: str, route: str, state: str, notes: tuple[str, ...]
) -> None:
    text = genai({"m": SAME, "image": {"input_audio_mtok": 3}})
    one = only(compare_text(tmp_path, model(lines, route=route), text))
    assert (one.state, one.notes, one.differences) == (state, notes, ())


def test_embeddings_have_no_output(tmp_path: Path) -> None:
    toml = model('kind = "embedding"\nprice = { input = 0.02 }')
    listed = {"input_cost_per_token": 2e-08, "output_cost_per_token": 0.5}
    assert only(compare_text(tmp_path, toml, litellm({"m": listed}))).state == "agrees"


def test_a_cost_is_compared_in_the_place_of_the_price(tmp_path: Path) -> None:
    """Each provider with the entry of its first route."""
    lines = """routes = ["azure/m", "openai/m", "openai/n"]
price = { input = 9, output = 99 }
cost = { input = 3, cached_input = 0.3, output = 15 }
cost_when = [{ provider = "azure", cost = { input = 4, output = 15 } }]
"""
    found = compare_text(tmp_path, f'[models."m"]\n{lines}', genai({"m": SAME, "n": {}}))
    told = [(one.key, one.route.provider, one.state, one.listed) for one in found]
    assert told == [
        ("cost", "azure", "not in the list", ""),
        ("cost", "openai", "agrees", "openai/m"),
    ]


def test_what_a_list_leaves_out_stays_or_follows() -> None:
    """A price that equals its default goes on to do so."""
    plain = Price(input=3, output=9, cached_input=3, cache_write=3, cache_write_1h=5, request=7)
    assert overlay(plain, {"input": 10}) == Price(10, 9, 10, 10, 7, 16)
    own = Price(input=3, output=9, cached_input=1, cache_write=4, cache_write_1h=8)
    assert overlay(own, {"input": 10}) == Price(10, 9, 1, 4, 0, 8)
