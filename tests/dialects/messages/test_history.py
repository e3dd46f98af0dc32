"""Thinking of earlier turns goes back to whoever signed it, and to nobody else."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.messages.history import (
    may_think,
    maybe_thinking,
    read_arguments,
    read_input,
    wrap_arguments,
)
from gateway.dialects.records import Target
from gateway.dialects.wire.seals import seal, tag_provider
from tests.dialects.billed import Json
from tests.support.rows import each_row


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
