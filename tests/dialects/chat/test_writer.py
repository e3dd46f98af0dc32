"""The one choice of a chat stream that is written from another dialect's events."""

from __future__ import annotations

from typing import Any

from gateway.dialects.chat.usage import make_chat_usage
from gateway.dialects.chat.writer import ChoiceWriter, uses_functions
from gateway.dialects.records import Json, Usage
from gateway.money import Tokens
from tests.dialects.chat.kit import DONE, MODEL, check_stream, make_context, read_chunks
from tests.support.rows import each_row

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
