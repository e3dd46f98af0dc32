"""Price lists: their formats, what is wrong with one, and the entry of a route."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.price_lists import (
    HOSTS,
    MAX_BYTES,
    GenaiPrices,
    Listed,
    LitellmPrices,
    PriceListError,
    find_names,
    open_list,
    read_amount,
    stack_tiers,
)
from gateway.config.reader import ConfigError
from gateway.config.settings import MAX_PRICE
from gateway.money import NANO
from tests.price_lists.kit import TODAY, genai, litellm, write
from tests.support.rows import each_row


@given(st.integers(0, MAX_PRICE * NANO))
def test_a_price_per_token_is_a_price_per_million(nano: int) -> None:
    assert read_amount(Decimal(nano).scaleb(-15), "x", power=6) == nano


@each_row(
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


def test_hosts_are_hosts() -> None:
    assert all(find_names(f"https://{host}/v1") == names for host, names in HOSTS.items())


FLAT = {"input_mtok": 5, "cache_read_mtok": 0.5, "cache_write_mtok": 6.25, "output_mtok": 25}
TIERED = {
    "input_mtok": {"base": 3, "tiers": [{"start": 200000, "price": 6}]},
    "cache_read_mtok": 0.3,
    "output_mtok": {"base": 15, "tiers": [{"start": 200000, "price": 22.5}]},
}


def find(text: str, name: str = "m") -> Listed | None:
    return GenaiPrices("f", json.loads(text, parse_float=Decimal), TODAY).find("openai", name)


def read(prices: object) -> Listed:
    found = find(genai({"m": prices}))
    assert found is not None
    return found


def test_classes_have_our_names() -> None:
    more = {"requests_kcount": 8, "cache_write_1h_mtok": 10, "web_searches_kcount": 10}
    assert read({**FLAT, **more, "input_audio_mtok": 99}).amounts == {
        "input": 5_000_000_000,
        "cached_input": 500_000_000,
        "cache_write": 6_250_000_000,
        "cache_write_1h": 10_000_000_000,
        "output": 25_000_000_000,
        "request": 8_000_000,
        "web_search": 10_000_000_000,
    }


def test_tiers_are_complete_prices() -> None:
    found = read(TIERED)
    assert found.amounts == {"input": 3 * 10**9, "cached_input": 300_000_000, "output": 15 * 10**9}
    assert found.tiers == (
        (200_000, {"input": 6 * 10**9, "cached_input": 300_000_000, "output": 22_500_000_000}),
    )


@each_row(
    ("prices", "input_", "note"),
    [
        ([{"prices": {"input_mtok": 1}}], 1, None),
        (
            [
                {"prices": {"input_mtok": 1}},
                {"constraint": {"start_date": "2026-03-13"}, "prices": {"input_mtok": 2}},
            ],
            2,
            None,
        ),
        (
            [
                {"prices": {"input_mtok": 1}},
                {"constraint": {"start_date": "2026-11-23"}, "prices": {"input_mtok": 2}},
            ],
            1,
            "the list has other prices from 2026-11-23 on",
        ),
        (
            [
                {"prices": {"input_mtok": 1}},
                {"constraint": {"start_time": "00:30Z"}, "prices": {"input_mtok": 2}},
            ],
            1,
            "the list has other prices at some times of the day",
        ),
    ],
)
def test_the_prices_of_today_count(prices: object, input_: int, note: str | None) -> None:
    found = read(prices)
    assert found.amounts["input"] == input_ * 10**9
    assert found.notes == ((note,) if note else ())


def test_a_model_is_found_by_its_id_and_by_the_names_it_equals() -> None:
    match = {"or": [{"starts_with": "m-"}, {"equals": "m-4-20250514"}, 7]}
    entry = {"id": "m-4-0", "match": match, "prices": {"input_mtok": 1}}
    text = json.dumps([{"id": "openai", "models": [7, entry]}, {"id": "other"}, 3])
    for name in ("m-4-0", "m-4-20250514"):
        found = find(text, name)
        assert found is not None
        assert found.name == f"openai/{name}"
    assert find(text, "m-9") is None
    assert GenaiPrices("f", json.loads(text), TODAY).find("other", "m-4-0") is None


@each_row(
    ("prices", "problem"),
    [
        ({"input_mtok": "5"}, 'input_mtok: must be a number, not "5"'),
        ({"input_mtok": -1}, "input_mtok: must be a price from 0 to"),
        ({"input_mtok": {"tiers": []}}, "input_mtok.base: must be a number, not"),
        ({"input_mtok": {"base": 1, "tiers": [{"price": 2}]}}, 'input_mtok: each of "tiers" must'),
        ({"input_mtok": {"base": 1, "tiers": 3}}, 'input_mtok: each of "tiers" must'),
        ([], '"prices" must be a table, or an array of tables'),
        (7, '"prices" must be a table, or an array of tables'),
        ([{"constraint": {"start_date": "soon"}, "prices": {}}], "start_date must be a date"),
    ],
)
def test_an_entry_that_is_not_in_order_is_named(prices: Any, problem: str) -> None:
    with pytest.raises(PriceListError) as caught:
        read(prices)
    assert str(caught.value).startswith('f: "openai/m": ' + problem)


def find_litellm(text: str, name: str = "m", provider: str = "openai") -> Listed | None:
    return LitellmPrices("f", json.loads(text, parse_float=Decimal)).find(provider, name)


def read_litellm(**prices: Any) -> Listed:
    found = find_litellm(litellm({"m": prices}))
    assert found is not None
    return found


def test_prices_per_token_become_prices_per_million() -> None:
    found = read_litellm(
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
    found = read_litellm(
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
    found = read_litellm(input_cost_per_token=1e-06, search_context_cost_per_query=sizes)
    assert ("web_search" in found.amounts, found.notes) == (
        False,
        ("the list prices web searches by their size",),
    )
    ranges = read_litellm(input_cost_per_token=1e-06, tiered_pricing=[{"range": [0, 16000]}])
    assert (ranges.tiers, ranges.notes) == (None, ("the list prices ranges of input",))
    assert read_litellm(output_cost_per_image=0.04).amounts == {}


@each_row(
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
    entry = find_litellm(text, name, provider)
    assert (entry is not None) is found
    assert entry is None or entry.name == listed


def test_an_entry_that_is_not_in_order_is_named_of_litellm() -> None:
    with pytest.raises(PriceListError, match=r'^f: "m": input_cost_per_token: must be a number'):
        read_litellm(input_cost_per_token="free")


@each_row(
    ("text", "format_"),
    [
        (genai({"m": {"input_mtok": 1}}), "genai-prices"),
        ('{"units": {}, "providers": ' + genai({"m": {"input_mtok": 1}}) + "}", "genai-prices"),
        ("\ufeff" + litellm({"m": {"input_cost_per_token": 1e-6}}), "LiteLLM"),
    ],
)
def test_the_format_is_recognised(tmp_path: Path, text: str, format_: str) -> None:
    found = open_list(write(tmp_path, text), TODAY)
    assert found.format == format_
    entry = found.find("openai", "m")
    assert entry is not None
    assert entry.amounts == {"input": 10**9}


@each_row(
    ("content", "problem"),
    [
        (b'[\n{"id": }]', "is not valid JSON at line 2, column 8: Expecting value"),
        (b"", "is not valid JSON at line 1, column 1: Expecting value"),
        (b'["\xff"]', "must be UTF-8 text; the byte at 2 is not"),
        (b"[" * 10**6, "is not valid JSON: nested too deeply"),
        (b'[{"models": NaN}]', "is not valid JSON: it has a malformed number"),
        (b"[" + b"9" * 5000 + b"]", "is not valid JSON: it has a malformed number"),
        (b"[]", "is JSON, but no price list that is known here"),
        (b"{}", "is JSON, but no price list that is known here"),
        (b"3", "is JSON, but no price list that is known here"),
        (b'{"data": [{"id": "m", "pricing": {}}]}', "is JSON, but no price list that is known"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "list.json"
    path.write_bytes(content)
    with pytest.raises(PriceListError) as caught:
        open_list(path, TODAY)
    assert str(caught.value).startswith(f"{path}: {problem}")
    assert isinstance(caught.value, ConfigError)


def test_a_folder_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PriceListError, match="cannot be read: Is a directory"):
        open_list(tmp_path, TODAY)
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(PriceListError, match=f"is larger than {MAX_BYTES} bytes"):
        open_list(huge, TODAY)
    with pytest.raises(FileNotFoundError):
        open_list(tmp_path / "missing", TODAY)


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    text = genai({"m": {"input_mtok": 1}}).replace('"input_mtok": 1', '"input_mtok": 0.123456789')
    found = open_list(write(tmp_path, text), TODAY).find("openai", "m")
    assert found is not None
    assert found.amounts["input"] == 123_456_789
    assert json.loads("0.1", parse_float=Decimal) == Decimal("0.1")
