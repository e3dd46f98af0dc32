"""Web searches between the dialects, where the model has a price for them. `written.txt` has the mapping."""

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
CLAUDE: Final[Json] = {"type": "web_search_20250305", "name": "web_search"}
OPENAI: Final[Json] = {"type": "web_search"}
DOMAINS: Final[Json] = {"allowed_domains": ["a.com"]}


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


@each_row(
    ("pair", "body"),
    [
        ("messages-chat", {"tools": [CLAUDE]}),
        ("messages-responses", {"tools": [CLAUDE]}),
        ("responses-chat", {"tools": [OPENAI]}),
        ("responses-messages", {"tools": [OPENAI]}),
        ("chat-messages", {"web_search_options": {}}),
        ("chat-responses", {"web_search_options": {}}),
        ("messages-chat", {"tools": [CLAUDE], "tool_choice": {"type": "none"}}),
        ("responses-chat", {"tools": [OPENAI], "tool_choice": "none"}),
    ],
)
def test_a_search_is_reckoned_with_where_it_is_carried_over(pair: str, body: Json) -> None:
    """By its price, or as the operator allows it."""
    allowing = Target("theirs", prices=PRICES, allow=frozenset({"web_search"}))
    assert write(pair, body) == write(pair, body, allowing)
    assert bool(write(pair, body)) == ("tool_choice" not in body)


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
