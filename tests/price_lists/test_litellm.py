"""LiteLLM's map of models."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gateway.price_lists.litellm import LitellmPrices
from gateway.price_lists.records import Listed, PriceListError
from tests.price_lists.lists import litellm


def find(text: str, name: str = "m", provider: str = "openai") -> Listed | None:
    return LitellmPrices("f", json.loads(text, parse_float=Decimal)).find(provider, name)


def read(**prices: Any) -> Listed:
    found = find(litellm({"m": prices}))
    assert found is not None
    return found


def test_prices_per_token_become_prices_per_million() -> None:
    found = read(
        input_cost_per_token=3e-06,
        cache_read_input_token_cost=3e-07,
        cache_creation_input_token_cost=3.75e-06,
        cache_creation_input_token_cost_above_1hr=6e-06,
        output_cost_per_token=1.5e-05,
        output_cost_per_reasoning_token=9e-05,
        input_cost_per_token_priority=7e-06,
        input_cost_per_request=0.005,
        search_context_cost_per_query={"search_context_size_low": 0.01, "b": 0.01},
    )
    assert found.amounts == {
        "input": 3_000_000_000,
        "cached_input": 300_000_000,
        "cache_write": 3_750_000_000,
        "cache_write_1h": 6_000_000_000,
        "output": 15_000_000_000,
        "request": 5_000_000,
        "web_search": 10_000_000_000,
    }
    assert (found.tiers, found.notes) == ((), ())


def test_prices_above_an_input_are_tiers() -> None:
    found = read(
        input_cost_per_token=3e-06,
        output_cost_per_token=15e-06,
        input_cost_per_token_above_200k_tokens=6e-06,
        cache_creation_input_token_cost_above_1hr_above_200k_tokens=12e-06,
        output_cost_per_token_above_272k_tokens=3e-05,
    )
    assert found.tiers == (
        (200_000, {"input": 6 * 10**9, "cache_write_1h": 12 * 10**9, "output": 15 * 10**9}),
        (272_000, {"input": 6 * 10**9, "cache_write_1h": 12 * 10**9, "output": 30 * 10**9}),
    )


def test_what_is_no_price_of_ours_is_said_in_words() -> None:
    sizes = {"search_context_size_low": 0.01, "search_context_size_high": 0.05}
    found = read(input_cost_per_token=1e-06, search_context_cost_per_query=sizes)
    assert ("web_search" in found.amounts, found.notes) == (
        False,
        ("the list prices web searches by their size",),
    )
    ranges = read(input_cost_per_token=1e-06, tiered_pricing=[{"range": [0, 16000]}])
    assert (ranges.tiers, ranges.notes) == (None, ("the list prices ranges of input",))
    assert read(output_cost_per_image=0.04).amounts == {}


@pytest.mark.parametrize(
    ("provider", "listed", "name", "found"),
    [
        ("openai", "m", "m", True),
        ("openrouter", "openrouter/z-ai/m", "z-ai/m", True),
        ("groq", "groq/m", "m", True),
        ("openai", "m-2026-01-01", "m", True),
        ("openai", "m", "m-2026-01-01", True),
        ("openai", "m", "n", False),
        ("azure", "m", "m", False),
    ],
)
def test_a_model_is_found_with_its_providers_prefix(
    provider: str, listed: str, name: str, *, found: bool
) -> None:
    given = "openai" if provider == "azure" else provider
    text = litellm({listed: {"input_cost_per_token": 1e-06}}, given)
    entry = find(text, name, provider)
    assert (entry is not None) is found
    assert entry is None or entry.name == listed


def test_an_entry_that_is_not_in_order_is_named() -> None:
    with pytest.raises(PriceListError, match=r'^f: "m": input_cost_per_token: must be a number'):
        read(input_cost_per_token="free")
