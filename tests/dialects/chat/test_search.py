"""Web searches between the dialects: carried over where the model has a price for them."""

from __future__ import annotations

from typing import Final

import orjson
import pytest

from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import Target
from gateway.errors import BadRequest
from tests.dialects.billed import PRICES, SEARCHING
from tests.dialects.chat.kit import Json
from tests.support.rows import each_row

SEARCH: Final = Target("theirs", prices=SEARCHING)
SAID: Final = [{"role": "user", "content": "Hi"}]
LEAST: Final[Json] = {
    "chat": {"messages": SAID},
    "messages": {"messages": SAID, "max_tokens": 99},
    "responses": {"input": SAID},
}
CITY: Final[Json] = {"city": "Berlin", "country": "DE"}
FLAT: Final[Json] = {"user_location": {"type": "approximate", **CITY}}
NESTED: Final[Json] = {"user_location": {"type": "approximate", "approximate": CITY}}
CLAUDE: Final[Json] = {"type": "web_search_20250305", "name": "web_search"}
NEWER: Final[Json] = {"type": "web_search_20260318", "name": "web_search"}
OPENAI: Final[Json] = {"type": "web_search"}
DOMAINS: Final[Json] = {"allowed_domains": ["a.com"]}
FUNCTION: Final[Json] = {"name": "f", "parameters": {"type": "object", "properties": {}}}
TOOLS: Final[Json] = {
    "chat": {"type": "function", "function": FUNCTION},
    "messages": {"name": "f", "input_schema": FUNCTION["parameters"]},
    "responses": {"type": "function", **FUNCTION, "strict": False},
}
"""The same function in each dialect."""


def write(pair: str, body: Json, target: Target = SEARCH) -> Json:
    """Return the tools, and what is said of them, in the request that the provider is sent."""
    caller, upstream = pair.split("-")
    data = orjson.dumps({"model": "ours", **LEAST[caller], **body})
    request = CALLERS[caller].parse_request(data)
    payload = EXCHANGES[caller][upstream].write_request(request, target)
    sent = orjson.loads(payload.data)
    names = ("tools", "tool_choice", "web_search_options", "parallel_tool_calls")
    made = {name: sent[name] for name in names if name in sent}
    searches = "web_search_options" in made or any(
        str(tool.get("type")).startswith("web_search") for tool in made.get("tools", ())
    )
    assert (payload.asked.tool_calls.get("web_search", 0) > 0) == searches
    return made


def refuse(pair: str, body: Json, target: Target = SEARCH) -> str | None:
    with pytest.raises(BadRequest) as caught:
        write(pair, body, target)
    return caught.value.param


CARRIED: list[tuple[str, Json, Json]] = [
    ("messages-chat", {"tools": [CLAUDE]}, {"web_search_options": {}}),
    ("messages-chat", {"tools": [{**NEWER, "max_uses": 8}]}, {"web_search_options": {}}),
    ("messages-chat", {"tools": [{**CLAUDE, **FLAT}]}, {"web_search_options": NESTED}),
    (
        "messages-chat",
        {"tools": [TOOLS["messages"], CLAUDE]},
        {"tools": [TOOLS["chat"]], "web_search_options": {}},
    ),
    ("messages-responses", {"tools": [CLAUDE]}, {"tools": [OPENAI]}),
    (
        "messages-responses",
        {"tools": [{**CLAUDE, **FLAT, **DOMAINS, "max_uses": 8}, TOOLS["messages"]]},
        {"tools": [TOOLS["responses"], {**OPENAI, **FLAT, "filters": DOMAINS}]},
    ),
    ("responses-chat", {"tools": [OPENAI]}, {"web_search_options": {}}),
    ("responses-chat", {"tools": [{"type": "web_search_preview"}]}, {"web_search_options": {}}),
    (
        "responses-chat",
        {"tools": [{**OPENAI, **FLAT, "search_context_size": "low", "filters": None}]},
        {"web_search_options": {**NESTED, "search_context_size": "low"}},
    ),
    ("responses-messages", {"tools": [OPENAI]}, {"tools": [CLAUDE]}),
    (
        "responses-messages",
        {"tools": [{**OPENAI, **FLAT, "search_context_size": "low", "filters": DOMAINS}]},
        {"tools": [{**CLAUDE, **FLAT, **DOMAINS}]},
    ),
    ("responses-chat", {"tools": [{**OPENAI, "external_web_access": False}]}, {}),
    ("responses-messages", {"tools": [{**OPENAI, "external_web_access": False}]}, {}),
    ("chat-messages", {"web_search_options": {}}, {"tools": [CLAUDE]}),
    (
        "chat-messages",
        {"web_search_options": {**NESTED, "search_context_size": "low"}, "tools": [TOOLS["chat"]]},
        {"tools": [TOOLS["messages"], {**CLAUDE, **FLAT}]},
    ),
    ("chat-messages", {"web_search_options": None}, {}),
    ("chat-responses", {"web_search_options": {}}, {"tools": [OPENAI]}),
    (
        "chat-responses",
        {"web_search_options": {**NESTED, "search_context_size": "low"}, "tools": [TOOLS["chat"]]},
        {"tools": [TOOLS["responses"], {**OPENAI, **FLAT, "search_context_size": "low"}]},
    ),
    (
        "chat-responses",
        {"web_search_options": {"user_location": {"type": "approximate"}}},
        {"tools": [{**OPENAI, "user_location": {"type": "approximate"}}]},
    ),
]


@each_row(("pair", "body", "made"), CARRIED)
def test_a_search_is_carried_over(pair: str, body: Json, made: Json) -> None:
    assert write(pair, body) == made
    allowing = Target("theirs", prices=PRICES, allow=frozenset({"web_search"}))
    assert write(pair, body, allowing) == made


FORCED: Final[Json] = {"type": "tool", "name": "web_search"}
ALLOWED: Final[Json] = {"type": "allowed_tools", "mode": "required", "tools": [OPENAI]}
CHOSEN: list[tuple[str, Json, Json, object]] = [
    # Providers of chat search in any case, and know no choice of it.
    ("messages-chat", CLAUDE, FORCED, None),
    ("messages-chat", CLAUDE, {"type": "any"}, None),
    ("messages-responses", CLAUDE, FORCED, ALLOWED),
    ("messages-responses", CLAUDE, {"type": "any"}, "required"),
    ("messages-responses", CLAUDE, {"type": "auto", "disable_parallel_tool_use": True}, "auto"),
    ("responses-chat", OPENAI, OPENAI, None),
    ("responses-chat", OPENAI, ALLOWED, None),
    ("responses-messages", OPENAI, OPENAI, FORCED),
    ("responses-messages", OPENAI, ALLOWED, {"type": "any"}),
]


@each_row(("pair", "tool", "choice", "expected"), CHOSEN)
def test_a_search_can_be_forced(pair: str, tool: Json, choice: Json, expected: object) -> None:
    asked = write(pair, {"tools": [tool]})
    chosen = {} if expected is None else {"tool_choice": expected}
    assert write(pair, {"tools": [tool], "tool_choice": choice}) == {**asked, **chosen}


def test_a_choice_of_functions_stands_beside_a_search() -> None:
    both = {"tools": [CLAUDE, TOOLS["messages"]]}
    made = {"tools": [TOOLS["chat"]], "web_search_options": {}}
    assert write("messages-chat", {**both, "tool_choice": FORCED}) == made
    forced = {**made, "tool_choice": "required"}
    assert write("messages-chat", {**both, "tool_choice": {"type": "any"}}) == forced
    allowed = {**ALLOWED, "tools": [{"type": "function", "name": "f"}]}
    tools = {"tools": [OPENAI, TOOLS["responses"]], "tool_choice": allowed}
    assert "web_search_options" not in write("responses-chat", tools)


@each_row(
    ("pair", "body"),
    [
        ("messages-chat", {"tools": [CLAUDE], "tool_choice": {"type": "none"}}),
        ("responses-chat", {"tools": [OPENAI], "tool_choice": "none"}),
    ],
)
def test_a_search_that_may_not_be_called_is_not_sent(pair: str, body: Json) -> None:
    assert write(pair, body) == {}


@each_row(
    ("pair", "body", "param"),
    [
        ("messages-chat", {"tools": [{**CLAUDE, **DOMAINS}]}, "tools.0.allowed_domains"),
        ("messages-chat", {"tools": [{**CLAUDE, "novelty": 1}]}, "tools.0.novelty"),
        ("messages-chat", {"tools": [{**CLAUDE, "allowed_callers": ["x"]}]}, "tools.0.allowed_callers"),
        ("messages-responses", {"tools": [{**CLAUDE, "blocked_domains": ["a.com"]}]}, "tools"),
        ("responses-chat", {"tools": [{**OPENAI, "filters": DOMAINS}]}, "tools[0].filters.allowed_domains"),
        ("chat-messages", {"web_search_options": {"novelty": 1}}, "web_search_options.novelty"),
        ("chat-responses", {"web_search_options": {"novelty": 1}}, "web_search_options.novelty"),
        ("chat-responses", {"web_search_options": 7}, "web_search_options"),
    ],
)  # fmt: skip
def test_what_another_dialect_cannot_say_is_refused_by_name(
    pair: str, body: Json, param: str
) -> None:
    assert refuse(pair, body) == param


@each_row(
    ("pair", "body", "param"),
    [
        ("messages-chat", {"tools": [CLAUDE]}, "tools.0.type"),
        ("messages-responses", {"tools": [CLAUDE]}, "tools.0.type"),
        ("chat-messages", {"web_search_options": {}}, "web_search_options"),
        ("chat-responses", {"web_search_options": {}}, "web_search_options"),
    ],
)
def test_a_search_without_a_price_is_refused_by_name(pair: str, body: Json, param: str) -> None:
    assert refuse(pair, body, Target("theirs", prices=PRICES)) == param


@each_row("pair", ["responses-chat", "responses-messages"])
def test_a_responses_callers_search_without_a_price_is_left_out(pair: str) -> None:
    assert write(pair, {"tools": [OPENAI]}, Target("theirs", prices=PRICES)) == {}
