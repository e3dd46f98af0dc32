"""Fields of chat requests that change the bill are refused unless the model has a price."""

from __future__ import annotations

from gateway.dialects.records import Target
from gateway.prices import Asked, PriceList, Terms
from tests.dialects.billed import PRICES, SEARCHING, Json, check_refused, refuse, ruled, write
from tests.support.rows import each_row

REFUSED: list[tuple[Json, str, str]] = [
    ({"service_tier": "priority"}, "service_tier", "service_tier"),
    ({"service_tier": "flex"}, "service_tier", "service_tier"),
    ({"web_search_options": {}}, "web_search_options", "web_search_options"),
    ({"web_search_options": {"user_location": None}}, "web_search_options", "web_search_options"),
    ({"modalities": ["text", "audio"]}, "modalities", "modalities"),
    ({"audio": {"voice": "alloy"}}, "audio", "audio"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
    ({"tools": [{"type": "function"}, {"type": "code_interpreter"}]}, "tools[1].type", "tools"),
    ({"tools": [{"type": []}]}, "tools[0].type", "tools"),
    ({"tools": [{"type": {}}]}, "tools[0].type", "tools"),
    ({"models": ["a", "b"]}, "models", "models"),
    ({"route": "fallback"}, "route", "route"),
    ({"provider": {"order": ["x"]}}, "provider", "provider"),
    ({"plugins": [{"id": "web"}]}, "plugins", "plugins"),
    ({"transforms": ["middle-out"]}, "transforms", "transforms"),
]  # fmt: skip


@each_row(("fields", "param", "name"), REFUSED)
def test_what_costs_is_refused_by_name_and_opened_by_name(
    fields: Json, param: str, name: str
) -> None:
    check_refused("chat", fields, param, name)


@each_row(
    "fields",
    [
        {"service_tier": None},
        {"service_tier": "auto"},
        {"service_tier": "default"},
        {"service_tier": "standard"},
        {"modalities": ["text"]},
        {"audio": None, "plugins": [], "models": None, "transforms": []},
        {"tools": [{"type": "function"}, {"type": "custom"}, {"function": {"name": "f"}}]},
        {"tools": [{"type": None, "function": {"name": "f"}}]},
    ],
)
def test_what_costs_nothing_more_passes(fields: Json) -> None:
    write("chat", fields, Target("up", prices=PRICES))


@each_row(
    ("fields", "prices", "asked"),
    [
        ({"service_tier": "priority"}, ruled(service_tier="priority"), Asked(Terms("priority"))),
        ({"service_tier": "fast"}, ruled(service_tier="priority"), Asked(Terms("priority"))),
        ({"service_tier": "auto"}, ruled(service_tier="priority"), Asked(any_tier=True)),
        ({"web_search_options": {}}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 1})),
        ({"tools": [{"type": "web_search"}]}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 1})),
        ({}, PRICES, Asked(any_tier=True)),
        ({"service_tier": None}, PRICES, Asked(any_tier=True)),
    ],
)  # fmt: skip
def test_what_has_a_price_passes_and_is_reckoned_with(
    fields: Json, prices: PriceList, asked: Asked
) -> None:
    assert write("chat", fields, Target("up", prices=prices)) == asked


def test_the_first_field_of_the_table_is_named() -> None:
    told = refuse("chat", {"preset": "x", "models": ["a"], "route": "fallback"}, "models")
    assert told.startswith("Unsupported parameter: 'models'.")
