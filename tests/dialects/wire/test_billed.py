"""The checks of fields and tools that change a provider's bill."""

from __future__ import annotations

import pytest

from gateway.dialects.records import Target
from gateway.dialects.wire.billed import check_fields, check_tools, list_families, refuse
from gateway.errors import BadRequest
from tests.dialects.billed import PRICES, SEARCHING, ruled
from tests.support.rows import each_row

PLAIN = Target("up", prices=PRICES)


@each_row("nothing", [None, [], {}, "", False])
def test_a_value_that_asks_for_nothing_passes(nothing: object) -> None:
    check_fields({"plugins": nothing, "other": 1}, PLAIN)


@each_row("value", [None, "auto", "priority"])
def test_what_is_free_or_has_a_price_passes(value: object) -> None:
    check_fields({"service_tier": value}, Target("up", prices=ruled(service_tier="priority")))


def test_the_first_field_of_the_table_is_named_unless_it_is_allowed() -> None:
    body = {"plugins": [1], "service_tier": "flex"}
    with pytest.raises(BadRequest, match="'service_tier' 'flex'"):
        check_fields(body, PLAIN)
    allowing = Target("up", prices=PRICES, allow=frozenset({"service_tier"}))
    with pytest.raises(BadRequest, match="'plugins'"):
        check_fields(body, allowing)


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
