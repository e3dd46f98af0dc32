"""Sealed content goes back to the provider that made it, and to no other."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from gateway.dialects.chat.state import tag_provider
from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import Target
from gateway.dialects.responses.history import SUMMARIES, strip_tools, tag_sealed, untag_items
from gateway.dialects.wire.billed import BILLED_NAMES
from gateway.errors import BadRequest
from gateway.prices import NOTHING_SPECIAL, Asked, BillTerms
from tests.dialects.billed import PRICES, SEARCHING, ruled
from tests.dialects.responses.kit import OTHER_TAG, TAG, Json
from tests.support.rows import each_row


def reason(sealed: str | None, kind: str = "reasoning") -> Json:
    return {"type": kind, "id": "rs_1", "summary": [], "encrypted_content": sealed}


def test_a_tag_tells_providers_apart() -> None:
    assert tag_provider("a", "https://x") == tag_provider("a", "https://x")
    others = [tag_provider("b", "https://x"), tag_provider("a", "https://y")]
    assert len({tag_provider("a", "https://x"), *others}) == 3


@each_row("separators", [(",", ":"), (", ", ": ")])
def test_what_leaves_is_tagged_and_comes_back_as_it_was(separators: tuple[str, str]) -> None:
    output = [reason("gAAA+/="), {"type": "message", "content": []}, reason("gBBB")]
    text = json.dumps({"output": output}, separators=separators).encode()
    tagged = json.loads(tag_sealed(text, TAG))["output"]
    assert [one.get("encrypted_content") for one in tagged] == [TAG + "gAAA+/=", None, TAG + "gBBB"]
    assert untag_items(tagged, TAG) == output


def test_what_is_in_a_text_is_no_sealed_content() -> None:
    said = json.dumps({"arguments": json.dumps(reason("gAAA")), "encrypted_content": None}).encode()
    assert tag_sealed(said, TAG) == said
    assert tag_sealed(b'{"encrypted_content":""}', TAG) == b'{"encrypted_content":""}'


def test_reasoning_of_another_provider_is_left_out() -> None:
    items = [reason(OTHER_TAG + "x"), reason("x"), reason(TAG + "x"), reason(None), "odd"]
    assert untag_items(items, TAG) == [reason("x"), "odd"]


def test_parts_of_another_provider_are_left_out() -> None:
    """Codex sends messages between agents so, sealed or in the clear."""

    def say(*sealed: str) -> Json:
        parts = [{"type": "encrypted_content", "encrypted_content": one} for one in sealed]
        return {"type": "agent_message", "content": parts}

    items = [say(TAG + "x", OTHER_TAG + "y", "Do it."), say(OTHER_TAG + "y"), say("Do it.")]
    assert untag_items(items, TAG) == [say("x", "Do it."), say("Do it.")]


@each_row("kind", sorted(SUMMARIES))
def test_a_conversation_summed_up_by_another_provider_is_refused(kind: str) -> None:
    assert untag_items([reason(TAG + "x", kind)], TAG) == [reason("x", kind)]
    for sealed in ("x", OTHER_TAG + "x"):
        with pytest.raises(BadRequest, match="Send the conversation itself") as caught:
            untag_items(["x", reason(sealed, kind)], TAG)
        assert caught.value.param == "input[1]"


FUNCTION = {"type": "function", "name": "f"}
SEARCH = {"type": "web_search"}
FREE = [
    FUNCTION,
    {"name": "f"},
    {"type": "custom", "name": "apply_patch"},
    {"type": "local_shell"},
    {"type": "shell"},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "tool_search"},
    {"type": "computer_use_preview"},
]
COSTLY = {
    "web_search": SEARCH,
    "file_search": {"type": "file_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "mcp": {"type": "mcp", "server_url": "https://x"},
    "image_generation": {"type": "image_generation"},
}
"""By the name that opens each."""
OPENED_TOGETHER = [
    {"type": "shell", "environment": {"type": "container_auto"}},
    {"type": "what_comes_next"},
    {"type": ["function"]},
]
PLAIN = Target("up", prices=PRICES)


def write(fields: Json, target: Target = PLAIN) -> tuple[Any, Asked]:
    body = orjson.dumps({"model": "m", "input": "Hi", **fields})
    request = CALLERS["responses"].parse_request(body)
    payload = EXCHANGES["responses"]["responses"].write_request(request, target)
    return orjson.loads(payload.data), payload.asked


def test_fields_that_cost_are_refused_without_a_price() -> None:
    for fields in ({"service_tier": "priority"}, {"plugins": [{"id": "web"}]}):
        with pytest.raises(BadRequest) as caught:
            write(fields)
        [name] = fields
        assert caught.value.param == name
        write(fields, Target("up", prices=PRICES, allow=frozenset({name})))
    asked = write(
        {"service_tier": "priority"}, Target("up", prices=ruled(service_tier="priority"))
    )[1]
    assert asked == Asked(BillTerms(service_tier="priority"))
    assert write({"service_tier": "auto"})[1].any_tier


def test_tools_that_cost_are_left_out_and_others_stay() -> None:
    body, asked = write({"tools": [*FREE, *COSTLY.values(), *OPENED_TOGETHER]})
    assert (body["tools"], asked) == (FREE, NOTHING_SPECIAL)


@each_row("name", COSTLY)
def test_a_tool_is_opened_by_its_name(name: str) -> None:
    assert name in BILLED_NAMES
    target = Target("up", prices=PRICES, allow=frozenset({name}))
    assert write({"tools": [*COSTLY.values()]}, target)[0]["tools"] == [COSTLY[name]]
    together = Target("up", prices=PRICES, allow=frozenset({"tools"}))
    tools = [*COSTLY.values(), *OPENED_TOGETHER]
    assert write({"tools": tools}, together)[0]["tools"] == tools


@each_row("kind", ["web_search", "web_search_preview", "web_search_2025_08_26"])
def test_a_search_with_a_price_passes_and_is_expected(kind: str) -> None:
    body, asked = write({"tools": [{"type": kind}]}, Target("up", prices=SEARCHING))
    assert (body["tools"], asked.tool_calls) == ([{"type": kind}], {"web_search": 1})


def test_tools_within_namespaces_and_items_are_left_out_too() -> None:
    space = {"type": "namespace", "name": "n", "tools": [FUNCTION, COSTLY["mcp"]]}
    item = {"type": "additional_tools", "tools": [COSTLY["mcp"], FUNCTION]}
    body, _ = write({"tools": [space], "input": [item, {"role": "user", "content": "Hi"}]})
    assert body["tools"] == [{**space, "tools": [FUNCTION]}]
    assert body["input"][0] == {**item, "tools": [FUNCTION]}


@each_row(
    ("tools", "choice", "kept"),
    [
        ([FUNCTION, SEARCH], "required", "required"),
        ([FUNCTION, SEARCH], {"type": "function", "name": "f"}, {"type": "function", "name": "f"}),
        ([SEARCH], "auto", None),
        ([FUNCTION, SEARCH], {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH]}, None),
        (
            [FUNCTION, SEARCH],
            {"type": "allowed_tools", "tools": [SEARCH, FUNCTION]},
            {"type": "allowed_tools", "tools": [FUNCTION]},
        ),
    ],
)
def test_what_is_left_out_is_not_chosen(tools: list[Json], choice: Any, kept: Any) -> None:
    stripped = strip_tools({"tools": tools, "tool_choice": choice}, PLAIN)
    assert stripped.get("tool_choice") == kept


@each_row(
    ("tools", "choice"),
    [
        ([FUNCTION, SEARCH], SEARCH),
        ([SEARCH], "required"),
        ([SEARCH], SEARCH),
        ([FUNCTION, SEARCH], {"type": "allowed_tools", "mode": "required", "tools": [SEARCH]}),
    ],
)
def test_a_forced_tool_without_a_price_is_refused(tools: list[Json], choice: Any) -> None:
    with pytest.raises(BadRequest, match="forces a tool") as caught:
        strip_tools({"tools": tools, "tool_choice": choice}, PLAIN)
    assert caught.value.param == "tool_choice"
