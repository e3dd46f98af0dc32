"""Fields and tools that change a provider's bill are refused unless the model has a price."""

from __future__ import annotations

import orjson
import pytest

from gateway.dialects.exchanges import COUNT_TOKENS
from gateway.dialects.records import Target
from gateway.dialects.wire.billed import BILLED_NAMES, check_tools, list_families, refuse
from gateway.errors import BadRequest
from gateway.prices import Asked, BillTerms, PriceList
from tests.dialects.billed import PRICES, SAID, SEARCHING, Json, ruled, write
from tests.support.rows import each_row

PLAIN = Target("up", prices=PRICES)
MCP = {"type": "url", "url": "https://x", "name": "x"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}

REFUSED: list[tuple[str, Json, str, str]] = [
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


@each_row(("dialect", "fields", "param", "name"), REFUSED)
def test_what_costs_is_refused_by_name_and_opened_by_name(
    dialect: str, fields: Json, param: str, name: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        write(dialect, fields, PLAIN)
    assert caught.value.param == param
    assert f"Unsupported parameter: '{param}'" in caught.value.message
    assert name in BILLED_NAMES
    write(dialect, fields, Target("up", prices=PRICES, allow=frozenset({name})))


@each_row(
    ("dialect", "fields"),
    [
        ("chat", {"service_tier": None}),
        ("chat", {"service_tier": "auto"}),
        ("chat", {"service_tier": "default"}),
        ("chat", {"service_tier": "standard"}),
        ("chat", {"modalities": ["text"]}),
        ("chat", {"audio": None, "plugins": [], "models": None, "transforms": []}),
        (
            "chat",
            {"tools": [{"type": "function"}, {"type": "custom"}, {"function": {"name": "f"}}]},
        ),
        ("chat", {"tools": [{"type": None, "function": {"name": "f"}}]}),
        ("messages", {"speed": "standard", "inference_geo": "global", "mcp_servers": []}),
        ("messages", {"service_tier": "auto", "container": None, "fallbacks": None}),
        ("messages", {"service_tier": "standard_only"}),
        ("messages", {"tools": [{"name": "f"}, {"type": "custom", "name": "f"}]}),
        ("messages", {"tools": [{"type": "bash_20250124"}, {"type": "text_editor_20250728"}]}),
        ("messages", {"tools": [{"type": "computer_20250124"}, {"type": "memory_20250818"}]}),
        ("messages", {"tools": [{"type": "tool_search_tool_regex_20251119"}]}),
        ("chat", {"plugins": [], "models": None, "route": "", "audio": {}, "preset": False}),
    ],
)
def test_what_costs_nothing_more_passes(dialect: str, fields: Json) -> None:
    write(dialect, fields, PLAIN)


@each_row(
    ("dialect", "fields", "prices", "asked"),
    [
        ("chat", {"service_tier": "priority"}, ruled(service_tier="priority"), Asked(BillTerms("priority"))),
        ("chat", {"service_tier": "fast"}, ruled(service_tier="priority"), Asked(BillTerms("priority"))),
        ("chat", {"service_tier": "auto"}, ruled(service_tier="priority"), Asked(any_tier=True)),
        ("chat", {"web_search_options": {}}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 1})),
        ("chat", {"tools": [{"type": "web_search"}]}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 1})),
        ("chat", {}, PRICES, Asked(any_tier=True)),
        ("chat", {"service_tier": None}, PRICES, Asked(any_tier=True)),
        ("messages", {"speed": "fast"}, ruled(speed="fast"), Asked(BillTerms(speed="fast"), any_tier=True)),
        ("messages", {"inference_geo": "us"}, ruled(geo="us"), Asked(BillTerms(inference_geo="us"), any_tier=True)),
        ("messages", {"tools": [SEARCH]}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 1})),
        ("messages", {"tools": [SEARCH | {"max_uses": 5}]}, SEARCHING, Asked(any_tier=True, tool_calls={"web_search": 5})),
        ("messages", {"cache_control": {"type": "ephemeral"}}, PRICES, Asked(any_tier=True, cache="5m")),
        ("messages", {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, PRICES, Asked(any_tier=True, cache="1h")),
        ("messages", {"system": '"ttl":"1h"'}, PRICES, Asked(any_tier=True)),
        ("messages", {"service_tier": "standard_only"}, PRICES, Asked(BillTerms("standard"))),
    ],
)  # fmt: skip
def test_what_has_a_price_passes_and_is_reckoned_with(
    dialect: str, fields: Json, prices: PriceList, asked: Asked
) -> None:
    assert write(dialect, fields, Target("up", prices=prices)) == asked


def test_the_first_field_of_the_table_is_named_unless_it_is_allowed() -> None:
    fields = {"plugins": [1], "service_tier": "flex", "models": ["a"]}
    with pytest.raises(BadRequest, match="'service_tier' 'flex'"):
        write("chat", fields, PLAIN)
    with pytest.raises(BadRequest, match="'models'"):
        write("chat", fields, Target("up", prices=PRICES, allow=frozenset({"service_tier"})))


@each_row("container", ["container_1", {"id": "container_1", "skills": []}])
def test_containers_of_the_operators_account_cannot_be_named(container: object) -> None:
    with pytest.raises(BadRequest, match="operator's own account"):
        write("messages", {"container": container}, Target("up", allow=frozenset({"container"})))


def test_a_count_of_tokens_is_free_whatever_it_asks_for() -> None:
    def count(fields: Json) -> bytes:
        request = COUNT_TOKENS.caller.parse_request(orjson.dumps({**SAID, **fields}))
        return COUNT_TOKENS.write_request(request, Target("up", prices=PRICES)).data

    for dialect, fields, _, _ in REFUSED:
        if dialect == "messages":
            count(fields)
    with pytest.raises(BadRequest, match="operator's own account"):
        count({"container": "container_1"})


def test_a_tool_is_allowed_by_its_family_by_all_or_by_the_price_of_a_search() -> None:
    search, fetch = ({"tools": [{"type": name}]} for name in ("web_search", "web_fetch"))
    for allow in ("web_search", "tools"):
        check_tools(search, Target("up", allow=frozenset({allow})))
    check_tools(search, Target("up", prices=SEARCHING))
    for target in (PLAIN, Target("up", prices=SEARCHING, allow=frozenset({"web_search"}))):
        with pytest.raises(BadRequest, match="run this tool itself"):
            check_tools(fetch, target)


@each_row(
    ("tool", "families"),
    [
        ({"name": "f", "input_schema": {}, "defer_loading": True, "what_comes_next": 1}, []),
        ({"function": {"name": "f"}}, []),
        ({"type": "function", "function": {"name": "f"}, "google_search": {}}, ["google_search"]),
        ({"name": "f", "url_context": {}}, ["url_context"]),
        ({"google_search": {}}, ["google_search"]),
        ({"googleSearch": {}, "codeExecution": {}}, ["codeExecution", "googleSearch"]),
        ({"type": "web_search_20250305", "name": "web_search"}, ["web_search"]),
        ({"type": "web_search_preview_2025_03_11"}, ["web_search"]),
        ({"type": "openrouter:web_search"}, ["web_search"]),
        ({"type": "openrouter:datetime"}, ["datetime"]),
        ({"type": "mcp_toolset", "mcp_server_name": "x"}, ["mcp_servers"]),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, ["code_execution"]),
        ({"type": "shell", "environment": {"type": "container_auto"}}, ["shell"]),
        ({"type": "bash_20250124", "name": "bash"}, []),
        ("no tool", []),
        ({}, []),
    ],
)
def test_the_tools_of_a_declaration_that_the_provider_runs(
    tool: object, families: list[str]
) -> None:
    assert list_families(tool) == families


@each_row(
    ("tool", "param"),
    [
        ({"type": "code_interpreter", "container": "cntr_1"}, "tools[0].container"),
        ({"type": "shell", "environment": {"type": "container_reference", "container_id": "c"}},
         "tools[0].container_id"),
        ({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}},
         "tools[0].container"),
        ({"type": "mcp", "connector_id": "connector_gmail"}, "tools[0].connector_id"),
    ],
)  # fmt: skip
def test_nothing_of_the_operators_account_is_named_by_an_allowed_tool(
    tool: dict[str, object], param: str
) -> None:
    with pytest.raises(BadRequest, match="operator's account") as caught:
        check_tools({"tools": [tool]}, Target("up", allow=frozenset({"tools"})))
    assert caught.value.param == param


@each_row(
    ("value", "named"),
    [("priority", "'tier' 'priority'."), ("some prose", "'tier'."), (["priority"], "'tier'.")],
)
def test_a_value_is_quoted_only_if_it_is_a_word(value: object, named: str) -> None:
    """Anything else may be content."""
    error = refuse("tier", value, "It costs")
    assert error.message.startswith(f"Unsupported parameter: {named}")
    assert error.param == "tier"
