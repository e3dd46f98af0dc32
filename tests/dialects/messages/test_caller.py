"""Messages requests: valid ones pass unchanged, errors name the field; estimates; thinking of earlier turns."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.state import seal, tag_provider
from gateway.dialects.exchanges import CALLERS, COUNT_TOKENS, EXCHANGES
from gateway.dialects.messages.caller import MessagesCaller
from gateway.dialects.messages.upstream import (
    may_think,
    maybe_thinking,
    read_arguments,
    read_input,
    wrap_arguments,
)
from gateway.dialects.records import ListedModel, Target
from gateway.errors import BadRequest
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

Json = dict[str, Any]

USER = {"role": "user", "content": "Hi"}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
MESSAGES = CALLERS["messages"]


def body(**fields: Any) -> Json:
    return {"model": "m", "max_tokens": 5, "messages": [USER], **fields}


def blocks(*items: Any) -> Json:
    return body(messages=[{"role": "user", "content": list(items)}])


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


VALID: dict[str, Json] = {
    "least": body(),
    "nulls are absence": body(stream=None, temperature=None, tools=None, thinking=None),
    "bounds": body(max_tokens=0, temperature=0, top_p=1, top_k=0, stop_sequences=[]),
    "unknown fields": body(novelty=1, betas=["x"]),
    "system in blocks": body(system=[{"type": "text", "text": "s"}]),
    "every role": body(messages=[USER, {"role": "assistant", "content": []}, {"role": "system", "content": "s"}]),
    "unknown blocks": blocks({"type": "novelty", "x": 1}),
}  # fmt: skip


@each_row("value", VALID.values())
def test_what_is_valid_passes_but_for_the_model(value: Json) -> None:
    request = MESSAGES.parse_request(dump(value))
    assert request.body == value
    written = EXCHANGES["messages"]["messages"].write_request(request, Target("theirs")).data
    assert json.loads(written) == {**value, "model": "theirs"}


@each_row("data", [b"", b" ", b"{", b"[]", b"7", b"\xff", b'{"a":"\\ud800"}'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        MESSAGES.parse_request(data)


PDF = {"type": "base64", "media_type": "application/pdf", "data": "A" * 80_000}
LINK = {"type": "url", "url": "https://x/y.pdf"}
TEXT = {"type": "text", "media_type": "text/plain", "data": "A" * 80}
IMAGE = {"type": "image", "source": PNG}


@each_row(
    ("value", "base64_chars", "tokens"),
    [
        (body(), 0, 0),
        (blocks({"type": "text", "text": "abc"}, IMAGE), 4, 1600),
        (blocks({"type": "document", "source": PDF}), 80_000, 10_000),
        (blocks({"type": "document", "source": PNG}), 4, 1500),
        (blocks({"type": "document", "source": LINK}), 0, 20_000),
        (blocks({"type": "document", "source": TEXT}), 0, 0),
        (blocks({"type": "document", "source": {"type": "content", "content": [IMAGE]}}), 4, 1600),
        (blocks({"type": "document", "source": {"type": "content", "content": "A"}}), 0, 0),
        (blocks({"type": "tool_result", "content": [IMAGE]}), 4, 1600),
        (blocks({"type": "mcp_tool_result", "content": [1, {"a": 1}, IMAGE]}), 4, 1600),
    ],
)
def test_files_are_estimated_by_kind_and_size(value: Json, base64_chars: int, tokens: int) -> None:
    """All else of the body is text."""
    request = MESSAGES.parse_request(dump(value))
    assert (request.base64_chars, request.file_tokens) == (base64_chars, tokens)


@each_row(
    "block",
    [
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "tool_result", "content": [{"type": "image", "source": {"file_id": "f"}}]},
        {"type": "mcp_tool_result", "content": [{"type": "image", "source": {"type": "file"}}]},
        {"type": "search_result", "content": [{"type": "document", "source": {"type": "file"}}]},
    ],
)
def test_files_of_the_operators_account_cannot_be_named(block: Json) -> None:
    with pytest.raises(BadRequest, match="operator's own account"):
        MESSAGES.parse_request(dump(blocks(block)))


def test_what_the_gateway_has_to_know_is_read() -> None:
    request = MESSAGES.parse_request(dump(body(stream=True, max_tokens=9)))
    assert (request.model, request.stream, request.max_tokens, request.n) == ("m", True, 9, 1)
    assert request.wants_usage
    assert MESSAGES.parse_request(dump(body(max_tokens=0))).max_tokens is None


def test_counting_needs_no_limit_and_has_a_path_of_its_own() -> None:
    value = {"model": "m", "messages": [USER]}
    with pytest.raises(BadRequest):
        MESSAGES.parse_request(dump(value))
    request = COUNT_TOKENS.caller.parse_request(dump(value))
    assert (request.max_tokens, COUNT_TOKENS.caller.name) == (None, "messages")
    assert COUNT_TOKENS.upstream.path == "/messages/count_tokens"
    assert COUNT_TOKENS.passed_headers == EXCHANGES["messages"]["messages"].passed_headers


@fuzz(150)
@given(
    st.dictionaries(
        st.sampled_from(["messages", "system", "tools", "max_tokens", "stop_sequences", "top_k"]),
        json_values | st.lists(st.dictionaries(st.sampled_from(["role", "content", "type", "text", "input"]), json_values), max_size=3),
    )
)  # fmt: skip
def test_no_json_breaks_the_validation(fields: Json) -> None:
    with contextlib.suppress(BadRequest):
        MESSAGES.parse_request(dump({"model": "m", **fields}))


MODELS: Final = [ListedModel(f"m{n}", "chat", "us", 0, 10, 20) for n in range(25)]


def page(**query: str | Sequence[str]) -> tuple[list[str], bool]:
    """Return the ids of a page, and whether there are more."""
    asked = {name: [value] if isinstance(value, str) else value for name, value in query.items()}
    made = MessagesCaller().list_models(MODELS, asked)
    ids = [one["id"] for one in made["data"]]
    ends = (made["first_id"], made["last_id"])
    assert ends == ((ids[0], ids[-1]) if ids else (None, None))
    return ids, made["has_more"]


def ids_of(first: int, last: int) -> list[str]:
    return [f"m{n}" for n in range(first, last)]


def test_pages_lead_through_the_list_and_back() -> None:
    assert page() == (ids_of(0, 20), True)
    assert page(after_id="m19") == (ids_of(20, 25), False)
    assert page(limit="3", after_id="m3") == (ids_of(4, 7), True)
    assert page(limit="3", before_id="m4") == (ids_of(1, 4), True)
    assert page(limit="3", before_id="m2") == (ids_of(0, 2), False)
    assert page(after_id="m24") == ([], False)
    assert page(limit="2", after_id="m3", before_id="m9") == (ids_of(4, 6), True)


def test_a_page_has_at_most_1000_models() -> None:
    assert page(limit="1") == (["m0"], True)
    many = [ListedModel(f"m{n}", "chat", "us", 0, 10, 20) for n in range(1001)]
    made = MessagesCaller().list_models(many, {"limit": ["1000"]})
    assert (len(made["data"]), made["has_more"], made["last_id"]) == (1000, True, "m999")


@each_row(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "-1"},
        {"limit": "ten"},
        {"limit": "٣"},
        {"after_id": "none"},
        {"before_id": "none"},
    ],
)
def test_a_bad_query_is_refused_by_name(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as refused:
        page(**query)
    assert [refused.value.param] == list(query)


def test_all_that_is_served_is_active() -> None:
    assert page(lifecycle=["active", "retired"], limit="1") == (["m0"], True)
    assert page(**{"lifecycle[]": ["retired"]}) == ([], False)


def test_what_is_unknown_of_a_model_is_null() -> None:
    shown = MessagesCaller().show_model(ListedModel("m", "chat", "us", 86_400, 10, 20))
    assert (shown["id"], shown["created_at"]) == ("m", "1970-01-02T00:00:00Z")
    assert (shown["max_input_tokens"], shown["max_tokens"]) == (10, 20)
    assert [shown[name] for name in ("capabilities", "deprecated_at", "retires_at")] == [None] * 3


@each_row(
    ("arguments", "made"),
    [
        ('{"a":1}', {"a": 1}),
        ("", {}),
        (" \n", {}),
        ("[1]", {"arguments": [1]}),
        ("null", {"arguments": "null"}),
        ('{"a":', {"arguments": '{"a":'}),
        ('{"a":"\\ud800"}', {"arguments": '{"a":"\\ud800"}'}),
        ("[" * 500 + "]" * 500, {"arguments": "[" * 500 + "]" * 500}),
    ],
)
def test_an_input_is_an_object(arguments: str, made: object) -> None:
    assert read_input(arguments) == made


def test_what_is_no_json_is_none() -> None:
    assert (read_arguments('"a"'), read_arguments("a")) == ("a", None)
    assert (wrap_arguments({"a": 1}), wrap_arguments(7)) == ({"a": 1}, {"arguments": 7})


TAG = tag_provider("alpha", "https://alpha.example/v1")
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
REDACTED = {"type": "redacted_thinking", "data": "x"}
CALL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
ENABLED = {"type": "enabled", "budget_tokens": 1024}


def write(content: list[Any], **fields: Any) -> Json:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
    body = {"model": "m", "max_tokens": 9, "messages": turns, **fields}
    request = CALLERS["messages"].parse_request(json.dumps(body).encode())
    target = Target("theirs", provider_tag=TAG)
    written: Json = json.loads(
        EXCHANGES["messages"]["messages"].write_request(request, target).data
    )
    return written


@each_row(
    "foreign",
    [
        {"type": "thinking", "thinking": "Hm.", "signature": seal(None, TAG)},
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "thinking", "thinking": "Hm."},
        {"type": "redacted_thinking", "data": seal([], TAG)},
    ],
)
def test_what_another_provider_made_is_left_out(foreign: Json) -> None:
    """Anthropic would refuse it at every further turn; thinking with a budget needs its own."""
    written = write([foreign, CALL], thinking=ENABLED)
    assert written["messages"][1]["content"] == [CALL]
    assert "thinking" not in written
    assert len(write([foreign])["messages"]) == 1
    text = {"type": "text", "text": "Hi"}
    assert write([foreign, text], thinking=ENABLED)["thinking"] == ENABLED


def test_pages_that_another_provider_found_are_left_out() -> None:
    """Their index is what Anthropic encrypts, to know them again."""
    page = {
        "type": "web_search_result_location",
        "cited_text": "x",
        "title": "",
        "url": "https://x",
    }
    own = {**page, "encrypted_index": "Eo8B"}
    text = {"type": "text", "text": "Hi"}
    for citations, kept in (([own, {**page, "encrypted_index": ""}], [own]), ([own], [own])):
        written = write([{**text, "citations": citations}])
        assert written["messages"][1]["content"] == [{**text, "citations": kept}]
    written = write([{**text, "citations": [{**page, "encrypted_index": ""}]}])
    assert written["messages"][1]["content"] == [{**text, "citations": None}]


def test_a_turn_of_another_provider_needs_no_thinking() -> None:
    """Anthropic would want thinking before its calls."""
    written = write([CALL], thinking=ENABLED)
    assert (written["messages"][1]["content"], "thinking" in written) == ([CALL], False)
    edits = [
        {"type": "clear_thinking_20251015", "keep": "all"},
        {"type": "clear_tool_uses_20250919"},
    ]
    context = {"context_management": {"edits": edits}}
    without = write([CALL], thinking=ENABLED, **context)
    assert without["context_management"] == {"edits": edits[1:]}
    assert (
        write([SIGNED, CALL], thinking=ENABLED, **context)["context_management"]["edits"] == edits
    )
    assert write([CALL], thinking={"type": "adaptive"})["thinking"] == {"type": "adaptive"}


def test_ids_of_other_providers_are_written_in_its_characters() -> None:
    call = CALL | {"id": "functions.get:0"}
    result = {"type": "tool_result", "tool_use_id": "functions.get:0", "content": "x"}
    assert write([call])["messages"][1]["content"] == [call | {"id": "functions_2eget_3a0"}]
    assert write([result])["messages"][1]["content"] == [
        result | {"tool_use_id": "functions_2eget_3a0"}
    ]


@each_row("content", [[SIGNED, CALL], [REDACTED, CALL], []])
def test_all_else_passes_as_it_came(content: list[Any]) -> None:
    written = write(content, thinking=ENABLED)
    assert (written["messages"][1]["content"], written["thinking"]) == (content, ENABLED)


def test_only_a_last_turn_with_calls_has_to_begin_with_thinking() -> None:
    def turns(*contents: Any) -> list[Json]:
        said = [{"role": "assistant", "content": one} for one in contents]
        return [*said, {"role": "user", "content": "Hi"}]

    assert may_think([])
    assert may_think(turns("Hi"))
    assert may_think(turns([CALL], [SIGNED, CALL]))
    assert may_think(turns([REDACTED, CALL]))
    assert not may_think(turns([SIGNED, CALL], [CALL]))


@each_row(
    ("block", "kept"),
    [
        (SIGNED | {"extra": 1}, SIGNED),
        (REDACTED, REDACTED),
        (SIGNED | {"signature": ""}, None),
        ({"type": "redacted_thinking"}, None),
        (CALL, None),
        (None, None),
    ],
)
def test_signed_thinking_is_kept_as_it_was_signed(block: object, kept: object) -> None:
    assert maybe_thinking(block) == kept
