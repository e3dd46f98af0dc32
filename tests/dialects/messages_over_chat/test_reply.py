"""A chat completion as a message: blocks, stop reasons, usage, ids, and invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message

from gateway.dialects.records import Reply
from gateway.errors import UndeliverableReply, UpstreamError
from gateway.money import Tokens
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL, Json, dump
from tests.dialects.messages_over_chat.kit import (
    BLOCK_KEYS,
    EXCHANGE,
    MESSAGE_KEYS,
    USAGE_KEYS,
    make_context,
    play_whole,
)
from tests.support.rows import each_row

USAGE: Json = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def completion(message: Json, finish: str | None = "stop", **fields: Any) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    extra = fields.pop("choice", {})
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "theirs"}
    return {**head, "choices": [{**choice, **extra}], "usage": USAGE, **fields}


def read_reply(reply: Json, body: Json | None = None) -> Reply:
    return EXCHANGE.read_reply(b"\n" + dump(reply), make_context(body))


def read(reply: Json, body: Json | None = None) -> Json:
    """Return the message, checked by Anthropic's own model and for all required keys."""
    message: Json = json.loads(read_reply(reply, body).body)
    Message.model_validate(message, strict=True)
    assert set(message) == MESSAGE_KEYS
    assert set(message["usage"]) == USAGE_KEYS
    assert all(set(block) == BLOCK_KEYS[block["type"]] for block in message["content"])
    return message


def call(identity: Any = "c1", name: Any = "f", arguments: Any = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def text(said: str) -> Json:
    return {"type": "text", "text": said, "citations": None}


def tool_use(identity: str, name: str, given: Json) -> Json:
    use = {"type": "tool_use", "id": identity, "name": name, "input": given}
    return {**use, "caller": {"type": "direct"}}


def test_message_has_the_callers_model_and_an_id_of_its_dialect() -> None:
    message = read(completion({"content": "hi"}))
    assert message == {
        "id": "msg_request-1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [text("hi")],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": message["usage"],
    }


THINKING = {"type": "thinking", "thinking": "hm", "signature": ""}
PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
    {"type": "text", "text": "a"},
    {"type": "text", "text": "b"},
    {"type": "reference", "reference_ids": [1]},
]


@each_row(
    ("message", "content"),
    [
        ({"content": "a"}, [text("a")]),
        ({"content": ""}, []),
        ({"content": None}, []),
        ({}, []),
        ({"content": "a", "reasoning_content": "hm"}, [THINKING, text("a")]),
        ({"content": "a", "reasoning": "hm"}, [THINKING, text("a")]),
        ({"content": "a", "reasoning": "hm", "reasoning_content": "hm"}, [THINKING, text("a")]),
        ({"content": "a", "reasoning_content": None}, [text("a")]),
        ({"content": PARTS}, [THINKING, text("ab")]),
        ({"content": PARTS, "reasoning_content": "hm"}, [THINKING, text("ab")]),
        ({"content": "a", "reasoning": "hm",
          "tool_calls": [call("c1", "f", '{"x":1}'), call("c2", "g", "")]},
         [THINKING, text("a"), tool_use("c1", "f", {"x": 1}), tool_use("c2", "g", {})]),
        ({"content": None, "tool_calls": [call(arguments=None)]}, [tool_use("c1", "f", {})]),
        ({"content": None, "tool_calls": [call(arguments={"x": 1})]}, [tool_use("c1", "f", {"x": 1})]),
        ({"content": None, "tool_calls": [call(None), call("")]}, [tool_use("toolu_request-1_0", "f", {}), tool_use("toolu_request-1_1", "f", {})]),
        ({"content": "a", "tool_calls": None}, [text("a")]),
    ],
)  # fmt: skip
def test_content_blocks(message: Json, content: list[Json]) -> None:
    assert read(completion(message))["content"] == content


CALLS = {"tool_calls": [call()]}


@each_row(
    ("message", "finish", "reason"),
    [
        ({"content": "a"}, "stop", "end_turn"),
        ({"content": "a"}, "length", "max_tokens"),
        ({"content": "a"}, "model_length", "model_context_window_exceeded"),
        (CALLS, "tool_calls", "tool_use"),
        (CALLS, "function_call", "tool_use"),
        (CALLS, "stop", "tool_use"),
        (CALLS, "length", "max_tokens"),
        ({"content": "a"}, "content_filter", "refusal"),
        ({"content": "a"}, "eos", "end_turn"),
    ],
)
def test_stop_reasons(message: Json, finish: str, reason: str) -> None:
    read_message = read(completion(message, finish))
    assert (read_message["stop_reason"], read_message["stop_details"]) == (reason, None)


@each_row(
    ("told", "reason", "sequence"),
    [("END", "stop_sequence", "END"), ("eos", "end_turn", None), (7, "end_turn", None)],
)
def test_stop_sequence_where_the_upstream_tells_one_of_the_callers(
    told: Any, reason: str, sequence: str | None
) -> None:
    reply = completion({"content": "a"}, choice={"stop_reason": told})
    message = read(reply, {"stop_sequences": ["END", "STOP"]})
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)
    assert read(reply)["stop_reason"] == "end_turn"


def test_refusal_is_said_and_explained() -> None:
    message = read(completion({"content": None, "refusal": "No."}))
    assert message["content"] == [text("No.")]
    assert message["stop_reason"] == "refusal"
    details = {"type": "refusal", "category": None, "explanation": "No."}
    assert message["stop_details"] == details


@each_row(
    ("usage", "tokens", "thinking"),
    [
        (USAGE, Tokens(5, 0, 0, 3), None),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1}},
         Tokens(2, 2, 1, 3), None),
        ({**USAGE, "total_tokens": 30}, Tokens(5, 0, 0, 25), None),
        ({**USAGE, "completion_tokens_details": {"reasoning_tokens": 2}}, Tokens(5, 0, 0, 3), 2),
        ({**USAGE, "completion_tokens_details": {"reasoning_tokens": -1}}, Tokens(5, 0, 0, 3), None),
        ({**USAGE, "completion_tokens_details": None}, Tokens(5, 0, 0, 3), None),
    ],
)  # fmt: skip
def test_usage_told_is_the_usage_charged(usage: Json, tokens: Tokens, thinking: int | None) -> None:
    given = completion({"content": "a"}, usage=usage)
    reply = read_reply(given)
    assert (reply.metered.tokens, reply.metered.estimated) == (tokens, False)
    assert read(given)["usage"] == {
        "input_tokens": tokens.input,
        "cache_read_input_tokens": tokens.cached_input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": None if thinking is None else {"thinking_tokens": thinking},
        "server_tool_use": None,
        "inference_geo": None,
        "service_tier": None,
    }


@each_row(
    ("usage", "prompt"),
    [
        (None, INPUT_ESTIMATE),
        ({"prompt_tokens": -1}, INPUT_ESTIMATE),
        ({**USAGE, "total_tokens": 10**9}, 5),
    ],
)
def test_what_a_usage_cannot_say_is_estimated_and_told(usage: Any, prompt: int) -> None:
    message = {"content": "abc", "reasoning": "ä", "tool_calls": [call(arguments='{"x":1}')]}
    given = completion(message, usage=usage)
    reply = read_reply(given)
    assert (reply.metered.tokens, reply.metered.estimated) == (
        Tokens(prompt, output=3),
        True,
    )  # 12 bytes
    assert read(given)["usage"]["output_tokens"] == 3


def test_call_cut_off_by_the_token_limit_does_not_lose_the_reply() -> None:
    cut = {"content": "a", "tool_calls": [call(arguments='{"x":')]}
    message = read(completion(cut, "length"))
    assert message["content"] == [text("a"), tool_use("c1", "f", {})]
    assert message["stop_reason"] == "max_tokens"


@each_row(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        dump({"error": {"message": "m"}}),
        dump({"choices": []}),
        dump({"choices": [None]}),
        dump({"choices": [{"index": 0, "finish_reason": "stop"}]}),
        dump(completion({"content": "a"}, "error")),
    ],
)
def test_what_is_no_completion_is_the_upstreams_fault(body: bytes) -> None:
    with pytest.raises(UpstreamError):
        EXCHANGE.read_reply(body, make_context())


@each_row(
    ("arguments", "wrapped"),
    [("{", "{"), ("no JSON", "no JSON"), ("[1]", [1]), ("7", 7), ([1], [1])],
)
def test_arguments_that_are_no_object_are_put_into_one(arguments: Any, wrapped: Any) -> None:
    """The reply is paid for, so it is delivered."""
    reply = read(completion({"tool_calls": [call(arguments=arguments)]}))
    assert reply["content"] == [tool_use("c1", "f", {"arguments": wrapped})]


@each_row(
    "reply",
    [
        completion({"tool_calls": [call(name="")]}),
        completion({"tool_calls": ["f"]}),
        completion({"content": "a"}, None),
    ],
)
def test_a_reply_that_cannot_be_passed_on_is_charged_and_not_to_be_tried_again(
    reply: Json,
) -> None:
    read_reply = EXCHANGE.read_reply(dump(reply), make_context())
    assert isinstance(read_reply.failure, UndeliverableReply)
    assert not read_reply.failure.should_retry
    assert read_reply.metered.tokens.output > 0


def test_upstreams_own_words_are_passed_on() -> None:
    with pytest.raises(UpstreamError, match="said upstream"):
        read_reply({"error": {"message": "said upstream"}})


@each_row("message", [{"content": "a", "reasoning_content": "hm"}, {"content": "b", **CALLS}])
def test_reply_to_a_request_for_a_stream_is_replayed_as_one(message: Json) -> None:
    """The stream has the same blocks, stop reason and usage as the JSON reply."""
    given = completion(message, "stop")
    replayed = play_whole(EXCHANGE.replay_reply(dump(given)))
    assert (replayed.complete, replayed.failure) == (True, None)
    expected = read(given)
    assert replayed.tokens == read_reply(given).metered.tokens
    assert replayed.out.count(b"event: content_block_start") == len(expected["content"])
    assert dump({"stop_reason": expected["stop_reason"]})[1:-1] in replayed.out
