"""Readers of price lists as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from gateway.extras.price_lists import entries
from gateway.extras.price_lists.compare import Difference
from gateway.extras.price_lists.entries import Listed
from gateway.extras.price_lists.genai import GenaiPrices
from gateway.extras.price_lists.litellm import LitellmPrices
from gateway.extras.price_lists.propose import describe_difference
from tests.extras.price_lists.kit import TODAY, compare_text, genai, litellm, model


def _tell(found: Listed | None) -> object:
    if found is None:
        return None
    return {
        "name": found.name,
        "amounts": found.amounts,
        "tiers": found.tiers,
        "notes": found.notes,
    }


def read_genai(prices: object) -> object:
    """Read the entry of a model `m` in genai-prices' format."""
    text = genai({"m": prices})
    return _tell(GenaiPrices("f", json.loads(text, parse_float=Decimal), TODAY).find("openai", "m"))


def find_genai(text: list[Any], provider: str, name: str) -> object:
    return _tell(GenaiPrices("f", text, TODAY).find(provider, name))


def read_litellm(prices: dict[str, Any]) -> object:
    """Read the entry of a model `m` in LiteLLM's format."""
    text = litellm({"m": prices})
    return _tell(LitellmPrices("f", json.loads(text, parse_float=Decimal)).find("openai", "m"))


def find_litellm(given: str, listed: str, provider: str, name: str) -> str | None:
    """Find a model of a provider in a list of one entry, of the provider `given`."""
    text = litellm({listed: {"input_cost_per_token": 1}}, given)
    found = LitellmPrices("f", json.loads(text)).find(provider, name)
    return None if found is None else found.name


def compare(lines: list[str], route: str, listed: dict[str, Any]) -> object:
    """Compare a model, written as lines of TOML, with genai-prices' entries."""
    with tempfile.TemporaryDirectory() as folder:
        toml = model("\n".join(lines), route=route)
        (one,) = compare_text(Path(folder), toml, genai(listed))
    rules = one.proposed.rules if one.proposed else ()
    differences = [describe_difference(each) for each in one.differences]
    return [one.state, one.notes, differences, [(rule.speed, rule.input_above) for rule in rules]]


def find_names(base_url: str) -> list[str] | None:
    found = entries.find_names(base_url)
    return None if found is None else [*found]


def read_amount(text: str, power: int) -> int:
    return entries.read_amount(Decimal(text), "x", power=power)


def tell_difference(old: int, new: int | None) -> str:
    return describe_difference(Difference("x", old, new))
