"""Messages replies as chat completions: broken text and replays. `heard.txt` has the rest."""

from __future__ import annotations

import json
from typing import Any

from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.dialects.chat_over_messages.kit import EXCHANGE, make_context

USAGE = {"input_tokens": 10, "output_tokens": 20}
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
