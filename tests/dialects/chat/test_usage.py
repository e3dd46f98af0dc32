"""Chat usage objects, and the one choice that is written from another dialect's events."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.repair import (
    count_message_text,
    make_chat_usage,
    maybe_repair_chat_usage,
)
from gateway.dialects.chat.writer import ChoiceWriter, uses_functions
from gateway.dialects.records import Json, Usage
from gateway.dialects.wire.usage import read_openai_usage
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import DONE, MODEL, check_stream, make_context, read_chunks
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

ROOMY = Expected(7, UsageLimits(10**6, 10**6, 10**6))
FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")


def usage(prompt: Any = 10, completion: Any = 5, total: Any = 15, **extra: Any) -> dict[str, Any]:
    return dict(zip(FIELDS, (prompt, completion, total), strict=True)) | extra


counts = st.integers(0, 2_000)


@fuzz(80)
@given(st.dictionaries(st.sampled_from((*FIELDS, "prompt_tokens_details")), json_values))
def test_what_is_repaired_is_well(reported: dict[str, Any]) -> None:
    repaired = maybe_repair_chat_usage(reported)
    assert repaired is None or maybe_repair_chat_usage(repaired) is None


@each_row(
    ("reported", "repaired"),
    [
        (usage(12, 1, 303), usage(12, 291, 303)),
        (usage(12, 9, 3), usage(12, 9, 21)),
        (usage(12, 9, None), usage(12, 9, 21)),
        (usage(12, 1, 303, num_sources_used=7), usage(12, 291, 303, num_sources_used=7)),
    ],
)
def test_a_total_is_made_the_sum(reported: dict[str, Any], repaired: dict[str, Any]) -> None:
    """All other fields and their order stay."""
    before = dict(reported)
    assert maybe_repair_chat_usage(reported) == repaired
    assert list(maybe_repair_chat_usage(reported) or {}) == list(reported)
    assert reported == before


@each_row("reported", [usage(), usage(-1), usage("x"), {}, usage(completion=None, total=None)])
def test_a_usage_that_is_well_or_unreadable_is_left(reported: dict[str, Any]) -> None:
    assert maybe_repair_chat_usage(reported) is None


@fuzz(100)
@given(st.builds(Tokens, counts, counts, counts, counts))
def test_a_made_usage_is_read_as_the_same_total(tokens: Tokens) -> None:
    made = make_chat_usage(tokens)
    assert made["prompt_tokens"] + made["completion_tokens"] == made["total_tokens"]
    read = read_openai_usage(made, None, ROOMY).tokens
    assert read == Tokens(tokens.total - tokens.output, output=tokens.output)


def call(arguments: Any) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}}


@each_row(
    ("message", "count"),
    [
        ({}, 0),
        ({"content": None, "refusal": None, "tool_calls": None}, 0),
        ({"content": "abé"}, 4),
        ({"content": "\ud800"}, 3),
        ({"content": 7, "refusal": [], "tool_calls": "x", "function_call": "y"}, 0),
        ({"content": "a", "refusal": "bc"}, 3),
        ({"reasoning_content": "abc", "reasoning": "abc"}, 3),
        ({"content": "a", "reasoning": "bc"}, 3),
        ({"tool_calls": [call("{}"), call('{"a":1}'), call(None), {}, 7]}, 9),
        ({"tool_calls": [call({"a": 1})]}, 7),
        ({"function_call": {"name": "f", "arguments": "{}"}}, 2),
        ({"content": [{"type": "text", "text": "ab"}, {"type": "image_url"}, 7]}, 2 + 6400),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "abc"}]},
                    {"type": "text", "text": "d"},
                ]
            },
            4,
        ),
    ],
)
def test_text_reasoning_and_arguments_are_counted_once(message: dict[str, Any], count: int) -> None:
    """Texts in lists count too; reasoning under both of its names counts once."""
    assert count_message_text(message) == count


@each_row("total", [15.0, "15", None])
def test_a_total_that_is_no_integer_is_written_anew(total: Any) -> None:
    repaired = maybe_repair_chat_usage(usage(total=total))
    assert repaired == usage()
    assert type(repaired["total_tokens"]) is int


USAGE = Usage(Tokens(3, output=4), estimated=False, reported=None)


class Scribe(ChoiceWriter):
    """Writes what an event's one key says."""

    def write(self, event: Json) -> None:
        for kind, held in event.items():
            if kind == "text":
                self._write_text("content", held)
            elif kind == "call":
                self._begin_call(f"c{held}", "f", "custom" if held else "function")
            else:
                self._write_arguments(held, "{é}", "custom" if held else "function")

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self, usage: Usage) -> None:
        self._write_end("stop", make_chat_usage(usage.tokens))


def write(*events: Json, usage: bool = False, **body: Any) -> tuple[Scribe, list[Json]]:
    context = make_context(usage=usage)
    context.request.body = body
    writer = Scribe(context)
    writer.open(USAGE)
    for event in events:
        writer.write(event)
    writer.flush()
    writer.close(USAGE)
    chunks = read_chunks(writer.take())
    assert (writer.take(), writer.finish(), writer.position) == (b"", DONE, None)
    return writer, chunks


@each_row("usage", [False, True])
def test_a_stream_keeps_the_rules_of_chat(*, usage: bool) -> None:
    writer, chunks = write({"text": "é"}, {"call": 0}, {"arguments": 0}, usage=usage)
    check_stream(chunks, usage=usage)
    assert {chunk["model"] for chunk in chunks} == {MODEL}
    assert {"usage" in chunk for chunk in chunks} == {usage}
    assert (chunks[-1].get("usage") or {}).get("total_tokens") == (7 if usage else None)
    assert writer.text_bytes == 2 + len("{é}".encode())


def test_what_says_nothing_is_not_written() -> None:
    writer, chunks = write({"text": ""}, {"text": None}, {"text": 7})
    assert len(chunks) == 2
    assert (writer.delivered, writer.text_bytes) == (False, 0)


def test_calls_are_numbered_and_have_the_keys_of_their_tool() -> None:
    writer, chunks = write({"call": 0}, {"call": 1}, {"arguments": 1}, {"arguments": 0})
    calls = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in chunks[1:-1]]
    function, custom = {"name": "f", "arguments": ""}, {"name": "f", "input": ""}
    assert calls == [
        {"index": 0, "id": "c0", "type": "function", "function": function},
        {"index": 1, "id": "c1", "type": "custom", "custom": custom},
        {"index": 1, "custom": {"input": "{é}"}},
        {"index": 0, "function": {"arguments": "{é}"}},
    ]
    assert writer.delivered


def test_a_caller_of_functions_gets_the_first_call_alone() -> None:
    events = ({"call": 0}, {"arguments": 0}, {"call": 1}, {"arguments": 1})
    _, chunks = write(*events, functions=[{"name": "f"}])
    assert [chunk["choices"][0]["delta"] for chunk in chunks[1:-1]] == [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{é}"}},
    ]


@each_row(
    ("body", "expected"),
    [
        ({}, False),
        ({"functions": []}, False),
        ({"functions": [{}]}, True),
        ({"functions": [{}], "tools": []}, True),
        ({"functions": [{}], "tools": [{}]}, False),
    ],
)
def test_tools_come_before_functions(body: Json, *, expected: bool) -> None:
    assert uses_functions(body) is expected
