"""What changes a provider's bill is refused by name unless the model has a price for it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.dialects import BILLED_NAMES, CALLERS, COUNT_TOKENS, EXCHANGES, Target
from gateway.errors import BadRequest
from gateway.money import Price
from gateway.prices import Asked, PriceList, PriceRule, Terms

Json = dict[str, Any]

PRICE = Price(1, 1, 1, 1)
SEARCHING = PriceList(Price(1, 1, 1, 1, web_search=10))


def ruled(
    *, service_tier: str | None = None, speed: str | None = None, geo: str | None = None
) -> PriceList:
    return PriceList(PRICE, (PriceRule(PRICE, None, service_tier, speed, geo),))


def write(dialect: str, fields: Json, target: Target) -> Asked:
    said = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
    request = CALLERS[dialect].parse_request(orjson.dumps({**said, **fields}))
    return EXCHANGES[dialect][dialect].write_request(request, target).asked


MCP = {"type": "url", "url": "https://x", "name": "x"}
CODE = {"type": "code_execution_20250825", "name": "code_execution"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
REFUSED = [
    ("chat", {"service_tier": "priority"}, "service_tier", "service_tier"),
    ("chat", {"service_tier": "flex"}, "service_tier", "service_tier"),
    ("chat", {"web_search_options": {}}, "web_search_options", "web_search_options"),
    ("chat", {"web_search_options": {"user_location": None}}, "web_search_options", "web_search_options"),
    ("chat", {"modalities": ["text", "audio"]}, "modalities", "modalities"),
    ("chat", {"audio": {"voice": "alloy"}}, "audio", "audio"),
    ("chat", {"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
    ("chat", {"tools": [{"type": "function"}, {"type": "code_interpreter"}]}, "tools[1].type", "tools"),
    ("chat", {"tools": [{"type": []}]}, "tools[0].type", "tools"),
    ("chat", {"tools": [{"type": {}}]}, "tools[0].type", "tools"),
    ("chat", {"models": ["a", "b"]}, "models", "models"),
    ("chat", {"route": "fallback"}, "route", "route"),
    ("chat", {"provider": {"order": ["x"]}}, "provider", "provider"),
    ("chat", {"plugins": [{"id": "web"}]}, "plugins", "plugins"),
    ("chat", {"transforms": ["middle-out"]}, "transforms", "transforms"),
    ("messages", {"speed": "fast"}, "speed", "speed"),
    ("messages", {"inference_geo": "us"}, "inference_geo", "inference_geo"),
    ("messages", {"container": {"skills": []}}, "container", "container"),
    ("messages", {"mcp_servers": [MCP]}, "mcp_servers", "mcp_servers"),
    ("messages", {"fallbacks": [{"model": "x"}]}, "fallbacks", "fallbacks"),
    ("messages", {"tools": [SEARCH]}, "tools.0.type", "web_search"),
    ("messages", {"tools": [{"type": "web_fetch_20250910"}]}, "tools.0.type", "web_fetch"),
    ("messages", {"tools": [{"type": "code_execution_20250825"}]}, "tools.0.type", "code_execution"),
    ("messages", {"tools": [{"type": "advisor_20260301"}]}, "tools.0.type", "advisor"),
    ("messages", {"tools": [{"type": "what_comes_next"}]}, "tools.0.type", "tools"),
    ("messages", {"tools": [{"type": "mcp_toolset"}]}, "tools.0.type", "mcp_servers"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "fields", "param", "name"), REFUSED)
def test_what_costs_is_refused_by_name_and_opened_by_name(
    dialect: str, fields: Json, param: str, name: str
) -> None:
    plain = Target("up", prices=PriceList(PRICE))
    with pytest.raises(BadRequest) as caught:
        write(dialect, fields, plain)
    assert caught.value.param == param
    assert param in caught.value.message
    assert name in BILLED_NAMES
    write(dialect, fields, Target("up", prices=PriceList(PRICE), allow=frozenset({name})))


PASSES = [
    ("chat", {"service_tier": None}),
    ("chat", {"service_tier": "auto"}),
    ("chat", {"service_tier": "default"}),
    ("chat", {"service_tier": "standard"}),
    ("chat", {"modalities": ["text"]}),
    ("chat", {"audio": None, "plugins": [], "models": None, "transforms": []}),
    ("chat", {"tools": [{"type": "function"}, {"type": "custom"}, {"function": {"name": "f"}}]}),
    ("chat", {"tools": [{"type": None, "function": {"name": "f"}}]}),
    ("messages", {"speed": "standard", "inference_geo": "global", "mcp_servers": []}),
    ("messages", {"service_tier": "auto", "container": None, "fallbacks": None}),
    ("messages", {"service_tier": "standard_only"}),
    ("messages", {"tools": [{"name": "f"}, {"type": "custom", "name": "f"}]}),
    ("messages", {"tools": [{"type": "bash_20250124"}, {"type": "text_editor_20250728"}]}),
    ("messages", {"tools": [{"type": "computer_20250124"}, {"type": "memory_20250818"}]}),
    ("messages", {"tools": [{"type": "tool_search_tool_regex_20251119"}]}),
]


@pytest.mark.parametrize(("dialect", "fields"), PASSES)
def test_what_costs_nothing_more_passes(dialect: str, fields: Json) -> None:
    write(dialect, fields, Target("up", prices=PriceList(PRICE)))


@pytest.mark.parametrize(
    ("dialect", "fields", "prices", "asked"),
    [
        ("chat", {"service_tier": "priority"}, ruled(service_tier="priority"), Asked(Terms("priority"))),
        ("chat", {"service_tier": "fast"}, ruled(service_tier="priority"), Asked(Terms("priority"))),
        ("chat", {"service_tier": "auto"}, ruled(service_tier="priority"), Asked(any_tier=True)),
        ("chat", {"web_search_options": {}}, SEARCHING, Asked(any_tier=True, web_searches=1)),
        ("chat", {"tools": [{"type": "web_search"}]}, SEARCHING, Asked(any_tier=True, web_searches=1)),
        ("messages", {"speed": "fast"}, ruled(speed="fast"), Asked(Terms(speed="fast"), any_tier=True)),
        ("messages", {"inference_geo": "us"}, ruled(geo="us"), Asked(Terms(inference_geo="us"), any_tier=True)),
        ("messages", {"tools": [SEARCH]}, SEARCHING, Asked(any_tier=True, web_searches=1)),
        ("messages", {"tools": [SEARCH | {"max_uses": 5}]}, SEARCHING, Asked(any_tier=True, web_searches=5)),
        ("messages", {"cache_control": {"type": "ephemeral"}}, PriceList(PRICE), Asked(any_tier=True, cache="5m")),
        ("messages", {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, PriceList(PRICE), Asked(any_tier=True, cache="1h")),
        ("messages", {"system": '"ttl":"1h"'}, PriceList(PRICE), Asked(any_tier=True)),
        ("messages", {"service_tier": "standard_only"}, PriceList(PRICE), Asked(Terms("standard"))),
        ("chat", {}, PriceList(PRICE), Asked(any_tier=True)),
        ("chat", {"service_tier": None}, PriceList(PRICE), Asked(any_tier=True)),
    ],
)  # fmt: skip
def test_what_has_a_price_passes_and_is_reckoned_with(
    dialect: str, fields: Json, prices: PriceList, asked: Asked
) -> None:
    assert write(dialect, fields, Target("up", prices=prices)) == asked


@pytest.mark.parametrize("container", ["container_1", {"id": "container_1", "skills": []}])
def test_containers_of_the_operators_account_cannot_be_named(container: object) -> None:
    with pytest.raises(BadRequest, match="operator's own account"):
        write("messages", {"container": container}, Target("up", allow=frozenset({"container"})))


@pytest.mark.parametrize(
    ("dialect", "fields", "said"),
    [
        ("chat", {"service_tier": "priority"}, "'service_tier' 'priority'."),
        ("chat", {"service_tier": "some prose"}, "'service_tier'."),
        ("chat", {"preset": "x", "models": ["a"], "route": "fallback"}, "'models'."),
        ("messages", {"tools": [CODE]}, "'tools.0.type' 'code_execution_20250825'."),
        ("messages", {"tools": [CODE | {"type": "some prose"}]}, "'tools.0.type'."),
    ],
)
def test_the_first_field_of_the_table_is_named_with_its_value_if_that_is_a_word(
    dialect: str, fields: Json, said: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        write(dialect, fields, Target("up", prices=PriceList(PRICE)))
    assert caught.value.message.startswith(f"Unsupported parameter: {said}")


def test_a_count_of_tokens_is_free_whatever_it_asks_for() -> None:
    said = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

    def count(fields: Any) -> bytes:
        request = COUNT_TOKENS.caller.parse_request(orjson.dumps({**said, **fields}))
        return COUNT_TOKENS.write_request(request, Target("up", prices=PriceList(PRICE))).data

    for dialect, fields, _, _ in REFUSED:
        if dialect == "messages":
            count(fields)
    with pytest.raises(BadRequest, match="operator's own account"):
        count({"container": "container_1"})
