"""Comparison with a list: agreement, drift, and TOML that loads and equals the list."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.money import FREE, NANO, Price, format_amount
from gateway.config.records import Model
from gateway.config.settings import MAX_PRICE
from gateway.extension import find_kinds
from gateway.extras.price_lists.compare import Comparison, overlay
from gateway.extras.price_lists.propose import propose
from tests.extras.price_lists import plain
from tests.extras.price_lists.kit import TODAY, compare_text, genai, litellm, load, model
from tests.support.extras import need_extra

PRICE = "price = { input = 3, cached_input = 0.3, output = 15 }"
SAME = {"input_mtok": 3, "cache_read_mtok": 0.3, "output_mtok": 15}


def only(found: list[Comparison]) -> Comparison:
    (one,) = found
    return one


@pytest.mark.skipif("embedding" not in find_kinds(), reason="needs models of this kind")
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


PROPOSAL_PRICE = "price = { input = 3, cached_input = 0.3, output = 15, web_search = 10 }"
RULES = """price_when = [
    { speed = "fast", price = { input = 30, output = 150 } },
    { input_above = 200_000, price = { input = 6, output = 20, web_search = 11 } },
]"""


def make_proposal(folder: Path, toml: str, text: str) -> tuple[list[Comparison], str]:
    compared = compare_text(folder, toml, text)
    return compared, propose(compared, TODAY)


def paste(folder: Path, proposed: str, more: str) -> Model:
    """Put the other keys of the model below the proposed table, and load it."""
    head, _, rest = proposed.partition("\n[models.")
    assert all(line.startswith("#") for line in head.split()) or head.startswith("#")
    return next(iter(load(folder, f"[models.{rest}\n{more}\n").models.values()))


def test_nothing_is_proposed_where_nothing_drifts(tmp_path: Path) -> None:
    _, text = make_proposal(tmp_path, model(PROPOSAL_PRICE), genai({"m": {"input_mtok": 3}}))
    assert text == "# 2026-11-22: nothing drifts from the list."


def test_a_model_that_becomes_free_loads(tmp_path: Path) -> None:
    listed = {"input_mtok": 0, "cache_read_mtok": 0, "output_mtok": 0, "web_searches_kcount": 0}
    _, text = make_proposal(tmp_path, model(f"{PROPOSAL_PRICE}\n{RULES}"), genai({"m": listed}))
    assert 'price = "free"' in text
    assert "price_when" not in text
    assert paste(tmp_path, text, 'routes = ["openai/m"]').free


def test_costs_of_several_providers_are_proposed_together(tmp_path: Path) -> None:
    lines = """routes = ["openai/m", "azure/m"]
price = { input = 9, output = 99 }
"""
    costs = """cost = { input = 1, output = 15, web_search = 3 }
cost_when = [
    { provider = "azure", speed = "fast", cost = { input = 3, output = 9 } },
    { provider = "azure", cost = { input = 4, output = 15, web_search = 0 } },
]
"""
    listed = {"input_mtok": {"base": 2, "tiers": [{"start": 7, "price": 5}]}}
    text = genai({"m": listed})
    compared, toml = make_proposal(tmp_path, f'[models."m"]\n{lines}{costs}', text)
    found = paste(tmp_path, toml, lines)
    wanted = {one.route.provider: one.proposed or one.prices for one in compared}
    assert found.costs == wanted
    assert wanted["openai"].base.input == 2 * NANO


def test_names_cannot_break_out_of_their_comments(tmp_path: Path) -> None:
    name = 'm"\n[models.evil]\nprice = "free"\n#-2026-01-01'
    toml = model("price = { input = 3, output = 1 }", route="openai/m")
    text = litellm({"m": {"input_cost_per_token": 1e-06}}).replace("openai", "openai")
    compared = compare_text(tmp_path, toml, text)
    forged = [Comparison(one.model, one.key, one.route, one.prices, "drifts", name,
                         one.differences, (), one.proposed) for one in compared]  # fmt: skip
    proposed = propose(forged, TODAY)
    assert "\n[models.evil]" not in proposed
    assert paste(tmp_path, proposed, 'routes = ["openai/m"]').prices.base.input == NANO


AMOUNTS = st.integers(0, MAX_PRICE * NANO).map(lambda nano: Decimal(nano).scaleb(-9))
CLASSES = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
OURS = ("input", "cached_input", "cache_write", "cache_write_1h", "output")


@st.composite
def tiered(draw: st.DrawFn) -> dict[str, Any]:
    """Prices of all classes, with up to two tiers that all classes share."""
    starts = draw(st.lists(st.sampled_from([0, 9, 128_000, 200_000]), unique=True, max_size=2))
    return {
        name: {"base": draw(AMOUNTS), "tiers": [{"start": n, "price": draw(AMOUNTS)} for n in starts]}
        for name in (*CLASSES, "output_mtok")
    }  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(tiered(), st.sampled_from(["price", "cost"]), st.sampled_from(["", RULES]))
def test_what_is_proposed_equals_the_list(listed: dict[str, Any], key: str, rules: str) -> None:
    """Whatever prices and rules it would replace."""
    own = f"{PROPOSAL_PRICE}\n{rules}"
    if key == "cost":
        own = f'price = "free"\n{own.replace("price", "cost")}'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        text = genai({"m": {"input_mtok": 0}}).replace('{"input_mtok": 0}', dump(listed))
        _, toml = make_proposal(path, model(own), text)
        kept = 'routes = ["openai/m"]' + ('\nprice = "free"' if key == "cost" else "")
        found = paste(path, toml, kept)
    prices = found.prices if key == "price" else found.costs["openai"]
    names = (*CLASSES, "output_mtok")
    for ours, theirs in zip(OURS, names, strict=True):
        assert getattr(prices.base, ours) == int(listed[theirs]["base"] * NANO)
    if prices.base == FREE and key == "price":
        return
    tiers = {rule.input_above: rule.price for rule in prices.rules if rule.speed is None}
    told = {tier["start"] for tier in listed["input_mtok"]["tiers"]}
    assert set(tiers) == told
    assert list(tiers) == sorted(told, reverse=True)
    for ours, theirs in zip(OURS, names, strict=True):
        for tier in listed[theirs]["tiers"]:
            assert getattr(tiers[tier["start"]], ours) == int(tier["price"] * NANO)


def dump(listed: dict[str, Any]) -> str:
    """Write JSON with the exact digits of each Decimal."""

    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f'"{k}": {write(v)}' for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return format_amount(int(value * NANO)) if isinstance(value, Decimal) else str(value)

    return write(listed)


@need_extra("audio")
def test_a_price_by_the_minute_is_not_compared() -> None:
    lines = ['kind = "audio"', "price = { minute = 1 }"]
    told = plain.compare(lines, "openai/m", {"m": SAME})
    assert told == ["not compared", ("its input is seconds",), [], []]
