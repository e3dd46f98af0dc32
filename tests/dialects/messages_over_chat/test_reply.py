"""A chat completion as a message: blocks, stop reasons, usage, ids, and invalid ones."""

from __future__ import annotations

from typing import Any

from gateway.dialects.records import Reply
from gateway.money import Tokens
from tests.dialects.chat.kit import MODEL, Json, dump
from tests.dialects.chat.kit import text as text_choice
from tests.dialects.messages_over_chat.kit import (
    EXCHANGE,
    USAGE,
    begin,
    call,
    check_reply,
    completion,
    make_context,
    play_whole,
    read_message,
    stream,
)
from tests.support.rows import each_row


def read_reply(reply: Json, body: Json | None = None) -> Reply:
    return EXCHANGE.read_reply(b"\n" + dump(reply), make_context(body))


def read(reply: Json, body: Json | None = None) -> Json:
    return check_reply(read_reply(reply, body))


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


def test_content_blocks() -> None:
    """Ids that the upstream leaves out are made, for one call always the same."""
    calls = [call("c1", "f", '{"x":1}'), call(None)]
    message = read(completion({"content": "a", "reasoning": "hm", "tool_calls": calls}))
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        text("a"),
        tool_use("c1", "f", {"x": 1}),
        tool_use("toolu_request-1_1", "f", {}),
    ]


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
    said = begin(0) if "tool_calls" in message else text_choice("a")
    heard = read_message(play_whole(stream(said, finish=finish))).model_dump()
    for told in (read(completion(message, finish)), heard):
        assert (told["stop_reason"], told["stop_details"]) == (reason, None)


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


def test_call_cut_off_by_the_token_limit_does_not_lose_the_reply() -> None:
    cut = {"content": "a", "tool_calls": [call(arguments='{"x":')]}
    message = read(completion(cut, "length"))
    assert message["content"] == [text("a"), tool_use("c1", "f", {})]
    assert message["stop_reason"] == "max_tokens"
