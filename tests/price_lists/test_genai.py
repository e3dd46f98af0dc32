"""The JSON of genai-prices."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gateway.price_lists.genai import GenaiPrices
from gateway.price_lists.records import Listed, PriceListError
from tests.price_lists.lists import TODAY, genai

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
    assert found.amounts == {
        "input": 3 * 10**9,
        "cached_input": 300_000_000,
        "output": 15 * 10**9,
    }
    assert found.tiers == (
        (
            200_000,
            {"input": 6 * 10**9, "cached_input": 300_000_000, "output": 22_500_000_000},
        ),
    )


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
