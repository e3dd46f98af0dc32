"""Composed translations: messages callers over messages upstreams, by way of chat.

This pair is not used, since equal dialects pass. But its result is known: the output must have
the content of the input.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.base import Pipeline
from gateway.dialects.composed import compose
from gateway.dialects.exchanges import CALLERS, TRANSLATIONS, UPSTREAMS, Exchange
from gateway.dialects.records import Target
from gateway.errors import BadRequest
from gateway.money import Tokens
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL, play
from tests.dialects.chat_over_messages.events import (
    STOP,
    argue,
    close,
    delta,
    finish,
    open_block,
    open_tool,
    say,
    start,
)
from tests.dialects.chat_over_messages.kit import frame
from tests.dialects.messages_over_chat.kit import (
    make_context,
    read_events,
    read_message,
    text_of,
    thinking_of,
    tools_of,
)
from tests.support.rows import each_row

Json = dict[str, Any]

THROUGH_CHAT = Exchange(
    CALLERS["messages"],
    UPSTREAMS["messages"],
    compose(
        TRANSLATIONS["messages", "chat"],
        TRANSLATIONS["chat", "messages"],
        (CALLERS["chat"], UPSTREAMS["chat"]),
    ),
)
USAGE: Json = {
    "input_tokens": 10,
    "cache_read_input_tokens": 4,
    "cache_creation_input_tokens": 3,
    "output_tokens": 20,
    "output_tokens_details": {"thinking_tokens": 15},
}
USED = Tokens(10, 4, 3, 20)
EVENTS = (
    start(input_tokens=10, output_tokens=1),
    open_block(0, "thinking", thinking="", signature=""),
    *(delta(0, "thinking", thinking="hm"), close(0)),
    *(open_block(1, text=""), say("Grüße, ", 1), say("Welt 🎉", 1), close(1)),
    *(open_tool(2, "t1", "f"), argue('{"a"', 2), argue(":1}", 2), close(2)),
    *(open_tool(3, "t2", "g"), close(3)),
    *(finish("tool_use", **USAGE), STOP),
)
CALLS = [("t1", "f", {"a": 1}), ("t2", "g", {})]


def open_stream() -> Pipeline:
    return THROUGH_CHAT.open_stream(make_context())


def test_a_stream_keeps_what_it_says() -> None:
    whole = play(open_stream(), [frame(*EVENTS)])
    message = read_message(whole)
    assert (text_of(message), thinking_of(message)) == ("Grüße, Welt 🎉", "hm")
    assert tools_of(message) == CALLS
    assert message.stop_reason == "tool_use"
    assert (whole.tokens, whole.estimated) == (USED, False)
    told = read_events(whole.out)[-2]["usage"]
    assert {key: told[key] for key in USAGE} == USAGE


def test_a_reply_keeps_what_it_says() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Hallo"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
    ]
    body = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": USAGE}
    reply = THROUGH_CHAT.read_reply(json.dumps(body).encode(), make_context())
    said = json.loads(reply.body)
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use"]
    assert (said["content"][1]["text"], said["content"][2]["input"]) == ("Hallo", {"a": 1})
    assert (said["model"], said["stop_reason"]) == (MODEL, "tool_use")
    assert {key: said["usage"][key] for key in USAGE} == USAGE
    assert (reply.metered.tokens, reply.metered.estimated) == (USED, False)


def test_without_a_usage_the_first_translation_is_metered() -> None:
    events = (start(), open_block(0, text=""), say("12345"), close(), finish(), STOP)
    played = play(open_stream(), [frame(*events)])
    assert (played.tokens, played.estimated) == (Tokens(INPUT_ESTIMATE, output=2), True)
    usage = read_message(played).usage
    assert (usage.input_tokens, usage.output_tokens) == (INPUT_ESTIMATE, 2)


def test_events_are_passed_on_as_they_come() -> None:
    pipeline = open_stream()
    assert b"message_start" in pipeline.feed(frame(EVENTS[0]))
    assert pipeline.begun
    assert not pipeline.delivered
    assert b'"hm"' in pipeline.feed(frame(*EVENTS[1:3]))
    assert pipeline.delivered
    assert not pipeline.finished
    assert b"message_delta" not in pipeline.feed(frame(*EVENTS[3:-1]))
    assert (pipeline.finished, pipeline.complete) == (True, False)
    assert b"message_delta" in pipeline.feed(frame(EVENTS[-1]))
    assert (pipeline.complete, pipeline.mid_event) == (True, False)


def test_a_failure_of_either_translation_fails_the_stream() -> None:
    """The upstream's own error, and a call without a name, which the second cannot write."""
    error = {"type": "error", "error": {"type": "api_error", "message": "said upstream"}}
    played = play(open_stream(), [frame(*EVENTS[:6], error, *EVENTS[6:])])
    assert (played.complete, played.failure) == (False, "said upstream")
    nameless = (start(), open_tool(0, "t1", ""), argue("{}", 0), close(0), *EVENTS[-2:])
    played = play(open_stream(), [frame(*nameless)])
    assert not played.complete
    assert "naming" in (played.failure or "")


ASKED: Json = {
    "model": MODEL,
    "max_tokens": 5000,
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]},
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
    "stream": True,
    "stop_sequences": ["END"],
}  # fmt: skip


def ask(target: Target, **fields: Any) -> Json:
    request = THROUGH_CHAT.caller.parse_request(json.dumps({**ASKED, **fields}).encode())
    asked: Json = json.loads(THROUGH_CHAT.write_request(request, target).data)
    return asked


TARGET = Target("theirs")


def test_a_request_asks_for_the_same() -> None:
    asked = ask(TARGET)
    assert (asked["model"], asked["max_tokens"], asked["stream"]) == ("theirs", 5000, True)
    assert asked["system"] == [{"type": "text", "text": "Be brief."}]
    assert asked["messages"] == ASKED["messages"]
    assert (asked["tools"], asked["stop_sequences"]) == (ASKED["tools"], ["END"])
    assert "stream_options" not in asked


@each_row(
    ("reasoning", "thinking"),
    [
        ("effort", {"type": "adaptive"}),
        ("budget", {"type": "enabled", "budget_tokens": 2048}),
        ("none", None),
    ],
)
def test_reasoning_is_asked_for_as_the_last_model_takes_it(
    reasoning: Any, thinking: Json | None
) -> None:
    target = replace(TARGET, reasoning=reasoning)
    enabled = {"type": "enabled", "budget_tokens": 3000}
    asked = ask(target, thinking=enabled, messages=[{"role": "user", "content": "Hi"}])
    assert asked.get("thinking") == thinking


def test_what_either_translation_cannot_carry_is_refused() -> None:
    with pytest.raises(BadRequest, match="container"):
        ask(TARGET, container="c1")
    with pytest.raises(BadRequest, match="white space"):
        ask(TARGET, stop_sequences=[" "])
