"""Fields of messages requests that change the bill are refused unless the model has a price."""

from __future__ import annotations

import orjson
import pytest

from gateway.dialects.exchanges import COUNT_TOKENS
from gateway.dialects.records import Target
from gateway.errors import BadRequest
from gateway.prices import Asked, PriceList, Terms
from tests.dialects.billed import PRICES, SAID, SEARCHING, Json, check_refused, ruled, write
from tests.support.rows import each_row

MCP = {"type": "url", "url": "https://x", "name": "x"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


REFUSED: list[tuple[Json, str, str]] = [
    ({"speed": "fast"}, "speed", "speed"),
    ({"inference_geo": "us"}, "inference_geo", "inference_geo"),
    ({"container": {"skills": []}}, "container", "container"),
    ({"mcp_servers": [MCP]}, "mcp_servers", "mcp_servers"),
    ({"fallbacks": [{"model": "x"}]}, "fallbacks", "fallbacks"),
    ({"tools": [SEARCH]}, "tools.0.type", "web_search"),
    ({"tools": [{"type": "web_fetch_20250910"}]}, "tools.0.type", "web_fetch"),
    ({"tools": [{"type": "code_execution_20250825"}]}, "tools.0.type", "code_execution"),
    ({"tools": [{"type": "advisor_20260301"}]}, "tools.0.type", "advisor"),
    ({"tools": [{"type": "what_comes_next"}]}, "tools.0.type", "tools"),
    ({"tools": [{"type": "mcp_toolset"}]}, "tools.0.type", "mcp_servers"),
]  # fmt: skip


@each_row(("fields", "param", "name"), REFUSED)
def test_what_costs_is_refused_by_name_and_opened_by_name(
    fields: Json, param: str, name: str
) -> None:
    check_refused("messages", fields, param, name)


@each_row(
    "fields",
    [
        {"speed": "standard", "inference_geo": "global", "mcp_servers": []},
        {"service_tier": "auto", "container": None, "fallbacks": None},
        {"service_tier": "standard_only"},
        {"tools": [{"name": "f"}, {"type": "custom", "name": "f"}]},
        {"tools": [{"type": "bash_20250124"}, {"type": "text_editor_20250728"}]},
        {"tools": [{"type": "computer_20250124"}, {"type": "memory_20250818"}]},
        {"tools": [{"type": "tool_search_tool_regex_20251119"}]},
    ],
)
def test_what_costs_nothing_more_passes(fields: Json) -> None:
    write("messages", fields, Target("up", prices=PRICES))


@each_row(
    ("fields", "prices", "asked"),
    [
        ({"speed": "fast"}, ruled(speed="fast"), Asked(Terms(speed="fast"), any_tier=True)),
        ({"inference_geo": "us"}, ruled(geo="us"), Asked(Terms(inference_geo="us"), any_tier=True)),
        ({"tools": [SEARCH]}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 1})),
        ({"tools": [SEARCH | {"max_uses": 5}]}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 5})),
        ({"cache_control": {"type": "ephemeral"}}, PRICES, Asked(any_tier=True, cache="5m")),
        ({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, PRICES, Asked(any_tier=True, cache="1h")),
        ({"system": '"ttl":"1h"'}, PRICES, Asked(any_tier=True)),
        ({"service_tier": "standard_only"}, PRICES, Asked(Terms("standard"))),
    ],
)  # fmt: skip
def test_what_has_a_price_passes_and_is_reckoned_with(
    fields: Json, prices: PriceList, asked: Asked
) -> None:
    assert write("messages", fields, Target("up", prices=prices)) == asked


@each_row("container", ["container_1", {"id": "container_1", "skills": []}])
def test_containers_of_the_operators_account_cannot_be_named(container: object) -> None:
    with pytest.raises(BadRequest, match="operator's own account"):
        write("messages", {"container": container}, Target("up", allow=frozenset({"container"})))


def test_a_count_of_tokens_is_free_whatever_it_asks_for() -> None:
    def count(fields: Json) -> bytes:
        request = COUNT_TOKENS.caller.parse_request(orjson.dumps({**SAID, **fields}))
        return COUNT_TOKENS.write_request(request, Target("up", prices=PRICES)).data

    for fields, _, _ in REFUSED:
        count(fields)
    with pytest.raises(BadRequest, match="operator's own account"):
        count({"container": "container_1"})
