"""JSON replies of messages upstreams, replayed ones, and token counts."""

from __future__ import annotations

import json
from typing import Any

from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from gateway.base.money import Tokens
from tests.dialects.chat.kit import MODEL, make_context
from tests.support.formats import EXCHANGES
from tests.support.rows import each_row

Json = dict[str, Any]

EXCHANGE = EXCHANGES["messages"]["messages"]
USAGE = {"input_tokens": 9, "output_tokens": 3, "cache_read_input_tokens": 2}


def message(**fields: Any) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "theirs"}
    content = [{"type": "text", "text": "12345"}]
    return {**head, "content": content, "stop_reason": "end_turn", "usage": USAGE, **fields}


def test_a_message_passes_byte_for_byte_but_for_the_model() -> None:
    """Spacing, key order, vendor fields and a "model" further in stay as they came."""
    body = (
        b'{"x": {"model":"theirs"},"content": [ {"type":"text","text":"\\"model\\":\\"theirs\\""} ],\n'
        b' "model":"theirs","usage": {"output_tokens":3, "input_tokens":9},"vendor":[1.50],"stop_reason":"end_turn"}'
    )
    reply = EXCHANGE.read_reply(b"\n" + body + b"\r\n", make_context())
    assert reply.body == body.replace(b' "model":"theirs"', b' "model":"%b"' % MODEL.encode())
    assert (reply.metered.tokens, reply.metered.estimated) == (Tokens(9, output=3), False)


@each_row("model", [None, 7, ""])
def test_a_model_that_is_missing_is_given(model: object) -> None:
    reply = EXCHANGE.read_reply(json.dumps(message(model=model)).encode(), make_context())
    assert json.loads(reply.body) == message(model=MODEL)


def usage(tokens_in: Any = 10, tokens_out: Any = 5, **extra: Any) -> Json:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out, **extra}


def say(said: str) -> Json:
    return {"type": "text", "text": said, "citations": None}


def think(thought: str) -> Json:
    return {"type": "thinking", "thinking": thought, "signature": "sig"}


def use(identity: str = "t1", name: str = "f", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def test_replayed_blocks_are_opened_empty_and_filled_by_deltas() -> None:
    """The messages API does the same, as its callers read only deltas."""
    blocks = [think("hm"), say("So:"), use("t1", "f", a=[1]), use("t2", "g")]
    blocks.append({"type": "redacted_thinking", "data": "x"})
    body = json.dumps(message(content=blocks, stop_reason="tool_use")).encode()
    frames = EXCHANGE.replay_reply(body, make_context()).body.decode().split("\n\n")
    assert frames.pop() == ""
    events = []
    for framed in frames:
        name, data = framed.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    opened = [each["content_block"] for each in events if "content_block" in each]
    assert opened == [think("") | {"signature": ""}, say(""), use("t1"), use("t2", "g"), blocks[4]]
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
