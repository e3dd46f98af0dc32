"""Odd requests, replies and streams of every pair: never an internal error, and the rules are kept."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any, Final

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import Target
from gateway.errors import BadRequest, GatewayError
from tests import streams
from tests.dialects.chat.kit import (
    DONE,
    Json,
    check_stream,
    dump,
    make_context,
    make_dice,
    play,
    random_slices,
    read_chunks,
)
from tests.dialects.messages_over_chat import kit as messages
from tests.dialects.responses_over_chat import kit as responses
from tests.streams import Stream, drop_comments
from tests.support.fuzz import ALL_EXAMPLES
from tests.support.messages import read_events
from tests.support.rows import each_row

PAIRS: Final = [
    (caller, upstream) for caller in EXCHANGES for upstream in EXCHANGES if caller != upstream
]
TIMES: Final = 200 if ALL_EXAMPLES else 40
JUNK: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 2**64, "", "x", "{", "auto", [], ["a"], [None], {}),
    *({"type": "x"}, {"type": "text", "text": "a"}, {"type": ["function"]}, {"a": {"b": []}}),
)
SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
PNG: Final = "data:image/png;base64,iVBO"
PDF: Final = "data:application/pdf;base64,JVBE"
CHAT_CALL: Final = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"a":1}'},
}
SAID: Final = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
USE: Final = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
IMAGE: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"},
}
BASE: Final = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
REQUESTS: Final[dict[str, Json]] = {
    "chat": {
        "messages": [
            {"role": "system", "content": [SAID]},
            {"role": "user", "content": [
                SAID, {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
                {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}]},
            {"role": "assistant", "content": "b", "refusal": "no", "tool_calls": [CHAT_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": [SAID]},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "x"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
            {"type": "function", "function": {"name": "f"}}]}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
        "reasoning_effort": "low", "parallel_tool_calls": False, "user": "u",
    },
    "messages": {
        "max_tokens": 5000, "system": [SAID],
        "messages": [
            {"role": "user", "content": [SAID, IMAGE, {"type": "document", "source": BASE, "title": "t"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"}, SAID, USE]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [SAID, IMAGE], "is_error": True},
                {"type": "document", "source": {"type": "content", "content": [SAID]}}]},
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA, "strict": True}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        "thinking": {"type": "enabled", "budget_tokens": 2000}, "metadata": {"user_id": "u"},
    },
    "responses": {
        "instructions": "i",
        "input": [
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": PNG},
                {"type": "input_file", "file_data": PDF, "filename": "a.pdf"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "namespace": "ns"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "c", "input": "x"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a"}]},
            {"type": "agent_message", "content": [{"type": "encrypted_content", "encrypted_content": "e"}]},
            {"type": "additional_tools", "tools": [{"type": "function", "name": "g"}]},
        ],
        "tools": [
            {"type": "function", "name": "f", "parameters": SCHEMA, "description": "d", "strict": True},
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "f"}]}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "c"}]},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
        "reasoning": {"effort": "low"}, "parallel_tool_calls": False,
    },
}  # fmt: skip
REASONING: Final[tuple[Any, ...]] = ("effort", "budget", "none")
REPLIES: Final[dict[str, Json]] = {
    "chat": {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, SAID],
        "refusal": "no", "reasoning": "hm", "tool_calls": [CHAT_CALL], "annotations": [
            {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 1, "url": "u"}}]}}]},
    "messages": {"content": [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {**SAID, "citations": [{"type": "web_search_result_location", "url": "u", "title": "t"}]}, USE],
        "stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "no"}},
    "responses": {"object": "response", "status": "incomplete", "incomplete_details": {"reason": "x"}, "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "e"},
        {"type": "message", "content": [{"type": "output_text", "text": "a", "annotations": [
            {"type": "url_citation", "start_index": 0, "end_index": 1, "url": "u"}]}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "c", "input": "x"},
        {"type": "image_generation_call", "result": "iVBO", "output_format": "png"}]},
}  # fmt: skip


def mangle(value: Any, dice: random.Random, rate: float) -> Any:
    """Return a copy in which members and items are missing, twice there, or something else."""
    if dice.random() < rate:
        return dice.choice(JUNK)
    if isinstance(value, dict):
        kept = {key: held for key, held in value.items() if dice.random() > rate / 2}
        return {key: mangle(held, dice, rate) for key, held in kept.items()}
    if isinstance(value, list):
        copies = [
            one for one in value for _ in range(dice.choice((0, 2)) if dice.random() < rate else 1)
        ]
        return [mangle(one, dice, rate) for one in copies]
    return value


@each_row(("caller", "upstream"), PAIRS)
def test_an_odd_request_is_written_or_refused(caller: str, upstream: str) -> None:
    dice, exchange = make_dice(), EXCHANGES[caller][upstream]
    written = 0
    for _ in range(TIMES):
        reasoning = dice.choice(REASONING)
        target = Target("theirs", reasoning=reasoning, leading_system=dice.random() < 0.3)
        body = mangle(REQUESTS[caller], dice, dice.choice((0, 0.01, 0.03))) or {}
        try:
            data = dump({"model": "m", **body}) if isinstance(body, dict) else dump(body)
            exchange.write_request(exchange.caller.parse_request(data), target)
            written += 1
        except BadRequest:
            continue
    assert written


@each_row(("caller", "upstream"), PAIRS)
def test_an_odd_reply_is_read_or_the_upstreams_fault(caller: str, upstream: str) -> None:
    dice, exchange = make_dice(), EXCHANGES[caller][upstream]
    for _ in range(TIMES):
        reply = json.dumps(mangle(REPLIES[upstream], dice, dice.choice((0, 0.02, 0.06)))).encode()
        with contextlib.suppress(GatewayError):
            exchange.read_reply(reply, make_context())
        with contextlib.suppress(GatewayError):
            exchange.replay_reply(reply)


def check_heard(caller: str, out: bytes, *, complete: bool) -> None:
    out = drop_comments(out)
    if caller == "chat":
        check_stream(read_chunks(out.removesuffix(DONE)), usage=True, finished=complete)
        return
    kit = messages if caller == "messages" else responses
    kit.check_events(read_events(out), complete=complete)


HEARD: Final = [
    (caller, stream)
    for stream in (*streams.CHAT, *streams.MESSAGES, *streams.RESPONSES)
    for caller in EXCHANGES
    if caller != stream.dialect
]
MISHAPS: Final = (
    b"",
    b"\n",
    b"\n\n",
    b"null",
    b'"',
    b"{}",
    b"[]",
    b"7",
    b"\xff",
    b"\r",
    b"data: ",
    b":",
)


@each_row(("caller", "stream"), HEARD)
def test_an_odd_stream_keeps_the_rules_in_any_slicing(caller: str, stream: Stream) -> None:
    """Its members are mangled, or its bytes. It ends in a failure, or else well."""
    dice = make_dice()
    for number in range(TIMES // 10):
        if number % 2:
            objects = [mangle(one, dice, 0.02) for one in stream.objects]
            framed = (b"data: " + dump(one) + b"\n\n" for one in objects)
            body = b"".join(framed) + (DONE if stream.dialect == "chat" else b"")
        else:
            mangled = bytearray(stream.body)
            for _ in range(dice.randint(1, 6)):
                at = dice.randrange(len(mangled))
                mangled[at : at + dice.choice((0, 1, 9))] = dice.choice(MISHAPS)
            body = bytes(mangled)
        open_stream = EXCHANGES[caller][stream.dialect].open_stream
        played = play(open_stream(make_context(usage=True)), [body])
        sliced = play(open_stream(make_context(usage=True)), random_slices(body, dice))
        assert sliced == played
        check_heard(caller, played.out, complete=played.complete and not played.failure)
