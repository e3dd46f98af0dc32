"""Replies and events of the Responses API, as a provider sends them."""

from __future__ import annotations

import json
from typing import Any, Final

from gateway.dialects.wire.records import ReplyContext
from gateway.dialects.wire.seals import tag_provider
from gateway.dialects.wire.sse import render_event
from tests.dialects.chat.kit import Json
from tests.dialects.chat.kit import make_context as make_chat_context

TAG: Final = tag_provider("alpha", "https://alpha.example/v1")


def make_context(body: Json | None = None) -> ReplyContext:
    return make_chat_context(body, usage=True, tag=TAG)


USAGE = {
    "input_tokens": 9,
    "output_tokens": 3,
    "total_tokens": 12,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def make_response(*output: Json, status: str = "completed", **fields: Any) -> Json:
    head: Json = {"id": "resp_1", "object": "response", "status": status, "model": "theirs"}
    return {**head, "output": list(output), **fields}


def message(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}


def call(arguments: str = "{}") -> Json:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c",
        "name": "f",
        "arguments": arguments,
    }


def number(*told: Json) -> list[Json]:
    return [{"type": one["type"], "sequence_number": at, **one} for at, one in enumerate(told)]


def frame(*told: Json) -> bytes:
    return b"".join(map(render_event, number(*told)))


def delta(text: str, **fields: Any) -> Json:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **where, "delta": text, "logprobs": [], **fields}


def read_events(out: bytes) -> list[Json]:
    """Read events, each with the name of its type, numbered without a gap."""
    events = []
    for block in out.split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        event = json.loads(data.removeprefix(b"data:"))
        assert name == b"event: " + event["type"].encode()
        events.append(event)
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    return events
