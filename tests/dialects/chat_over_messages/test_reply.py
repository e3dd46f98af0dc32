"""A messages upstream's JSON replies as chat completions, and replayed as streams."""

from __future__ import annotations

import json
from typing import Any

from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletion
from pydantic import TypeAdapter

from gateway.dialects.records import Reply
from gateway.money import Tokens
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL
from tests.dialects.chat_over_messages.kit import CREATED, EXCHANGE, make_context
from tests.support.rows import each_row

USAGE = {"input_tokens": 10, "output_tokens": 20}
FULL_USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 3,
    "cache_read_input_tokens": 4,
    "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2},
    "output_tokens": 20,
    "output_tokens_details": {"thinking_tokens": 15},
    "service_tier": "standard",
}
Json = dict[str, Any]


def text(said: str) -> Json:
    return {"type": "text", "text": said, "citations": None}


def think(thought: str) -> Json:
    return {"type": "thinking", "thinking": thought, "signature": "sig"}


def use(identity: str = "t1", name: str = "f", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def message(*blocks: Json, reason: str | None = "end_turn", **fields: Any) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "theirs"}
    ending = {"stop_reason": reason, "stop_sequence": None, "usage": USAGE}
    return {**head, "content": list(blocks), **ending, **fields}


def read(reply: Json, *, limits: int = 10**6, **body: Any) -> Reply:
    context = make_context(limits=limits, **body)
    made = EXCHANGE.read_reply(json.dumps(reply).encode(), context)
    ChatCompletion.model_validate_json(made.body, strict=True)
    return made


def read_choice(reply: Json, **body: Any) -> Json:
    completion = json.loads(read(reply, **body).body)
    assert len(completion["choices"]) == 1
    choice: Json = completion["choices"][0]
    return choice


def call(identity: str = "t1", name: str = "f", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def test_reply_in_full() -> None:
    reply = read(message(text("Hello"), usage=FULL_USAGE))
    assert json.loads(reply.body) == {
        "id": "chatcmpl-request-1",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 17,
            "completion_tokens": 20,
            "total_tokens": 37,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 15},
        },
    }
    assert (reply.metered.tokens, reply.metered.estimated) == (Tokens(10, 4, 1, 20, 2), False)


@each_row(
    ("blocks", "expected"),
    [
        ([text("a"), text("b")], {"content": "ab"}),
        ([], {"content": ""}),
        ([think("hm "), think("so"), text("a")], {"content": "a", "reasoning_content": "hm so"}),
        ([{"type": "redacted_thinking", "data": "x"}, text("a")], {"content": "a"}),
        ([{"type": "server_tool_use"}, {"type": "unheard_of"}, 7, text("a")], {"content": "a"}),
        ([use()], {"content": None, "tool_calls": [call()]}),
        ([text("So:"), use("t1", "f", a=[1], b="é"), use("t2", "g")],
         {"content": "So:", "tool_calls": [call("t1", "f", '{"a":[1],"b":"é"}'), call("t2", "g")]}),
    ],
)  # fmt: skip
def test_blocks_become_one_message(blocks: list[Any], expected: Json) -> None:
    made = read_choice(message(*blocks))["message"]
    assert made == {"role": "assistant", "refusal": None, **expected}


@each_row(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("compaction", "stop"),
    ],
)
def test_stop_reasons(reason: str, finish: str) -> None:
    assert read_choice(message(text("a"), reason=reason))["finish_reason"] == finish


def test_calls_finish_as_calls_whatever_the_reason_says() -> None:
    assert read_choice(message(use(), reason="end_turn"))["finish_reason"] == "tool_calls"
    assert read_choice(message(use(), reason="max_tokens"))["finish_reason"] == "length"


@each_row(
    ("details", "refusal"),
    [
        ({"type": "refusal", "category": "bio", "explanation": "Not that."}, "Not that."),
        ({"type": "refusal", "category": None, "explanation": None}, None),
        (None, None),
    ],
)
def test_a_refusal_is_explained(details: Json | None, refusal: str | None) -> None:
    choice = read_choice(message(reason="refusal", stop_details=details))
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"] == {"role": "assistant", "content": "", "refusal": refusal}


def test_a_caller_of_functions_gets_a_function_call() -> None:
    functions = [{"name": "f"}]
    choice = read_choice(message(use(a=1), reason="tool_use"), functions=functions)
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert "tool_calls" not in choice["message"]
    both = read_choice(message(use(), reason="tool_use"), functions=functions, tools=[{}])
    assert both["finish_reason"] == "tool_calls"


@each_row(
    ("usage", "prompt"),
    [
        (None, INPUT_ESTIMATE),
        ({}, INPUT_ESTIMATE),
        ({"input_tokens": 5}, 5),
        ({"input_tokens": 5, "output_tokens": -1}, 5),
    ],
)
def test_what_a_usage_does_not_tell_is_estimated(usage: Json | None, prompt: int) -> None:
    reply = read(message(think("1234"), text("12345"), use(a=1), usage=usage))
    output = -(-(4 + 5 + len('{"a":1}')) // 4)
    assert (reply.metered.tokens, reply.metered.estimated) == (Tokens(prompt, output=output), True)
    assert json.loads(reply.body)["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }


def test_broken_text_of_the_upstream_passes() -> None:
    body = json.dumps(message(text("a"))).encode().replace(b'"a"', b'"\\ud800\xff"')
    made = EXCHANGE.read_reply(b"\n\n" + body, make_context())
    assert json.loads(made.body)["choices"][0]["message"]["content"] == "\ud800\ufffd"


def test_replayed_blocks_are_opened_empty_and_filled_by_deltas() -> None:
    """The messages API does the same, as its callers read only deltas."""
    blocks = [think("hm"), text("So:"), use("t1", "f", a=[1]), use("t2", "g")]
    blocks.append({"type": "redacted_thinking", "data": "x"})
    body = json.dumps(message(*blocks, reason="tool_use")).encode()
    frames = EXCHANGE.replay_reply(body).decode().split("\n\n")
    assert frames.pop() == ""
    events = []
    for framed in frames:
        name, data = framed.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    opened = [each["content_block"] for each in events if "content_block" in each]
    assert opened == [think("") | {"signature": ""}, text(""), use("t1"), use("t2", "g"), blocks[4]]
    assert [each["delta"] for each in events if "delta" in each] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "sig"},
        {"type": "text_delta", "text": "So:"},
        {"type": "input_json_delta", "partial_json": '{"a":[1]}'},
        {"type": "input_json_delta", "partial_json": ""},
        {"stop_reason": "tool_use", "stop_sequence": None, "stop_details": None},
    ]
    for each in events:
        TypeAdapter[Any](RawMessageStreamEvent).validate_python(each)
