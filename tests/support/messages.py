"""The messages API for callers and providers: replies, events, and the rules of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.support.chat import Used
from tests.support.replies import Json, dumps

UPSTREAM_ID: Final = "msg_upstream0001"
UPSTREAM_MODEL: Final = "upstream-claude-2026"
STOP: Final[Json] = {"type": "message_stop"}
EVENTS: Final[TypeAdapter[Any]] = TypeAdapter(RawMessageStreamEvent)

MESSAGE_KEYS: Final = frozenset(
    {"id", "type", "role", "model", "content", "container"}
    | {"stop_reason", "stop_sequence", "stop_details", "usage"}
)
DELTA_USAGE_KEYS: Final = frozenset(
    {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"}
    | {"output_tokens_details", "server_tool_use"}
)
USAGE_KEYS: Final = DELTA_USAGE_KEYS | {"cache_creation", "inference_geo", "service_tier"}
DELTA_KEYS: Final = frozenset({"stop_reason", "stop_sequence", "stop_details", "container"})
BLOCK_KEYS: Final = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "tool_use": {"type", "id", "name", "input", "caller"},
}
"""Keys that the published schema marks required, but for citations."""
DELTAS: Final = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
}


def check_keys(block: Json) -> None:
    """Check a block's keys. Citations are left out where there are none: Vercel's AI SDK refuses null."""
    assert set(block) - {"citations"} == BLOCK_KEYS[block["type"]]
    assert block.get("citations", [""])


def ask(model: str, text: str = "Say hello, please.", **extra: Any) -> Json:
    """Make a request with one user message and extra fields."""
    body: Json = {
        "model": model,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": text}],
    }
    return body | extra


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def call(identity: str, name: str, arguments: Json) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def thinking(thought: str) -> Json:
    return {"type": "thinking", "thinking": thought, "signature": "c2lnbmVk"}


def make_usage(used: Used) -> Json:
    """Make a usage object; its classes are disjoint."""
    return {
        "input_tokens": used.prompt - used.cached - used.written,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.cached,
        "output_tokens": used.completion,
    }


USAGE: Final = make_usage(Used(11, 7))


def make_message(
    content: Sequence[Json] | str = "Hello, world!",
    *,
    usage: Json = USAGE,
    stop: str | None = "end_turn",
    **extra: Any,
) -> Json:
    """Make a complete reply; `extra` adds to or overrides the top level."""
    blocks = [text(content)] if isinstance(content, str) else list(content)
    reply: Json = {
        "id": UPSTREAM_ID,
        "type": "message",
        "role": "assistant",
        "model": UPSTREAM_MODEL,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    return reply | extra


def make_events(
    content: Sequence[Json] | str = "Hello, world!", *, usage: Json = USAGE, stop: str = "end_turn"
) -> list[Json]:
    """Make a whole stream; it reports its output tokens only at the end."""
    start = make_message([], usage=usage | {"output_tokens": 1}, stop=None)
    blocks = [text(content)] if isinstance(content, str) else content
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        events += _make_block_events(index, block)
    ending = {"stop_reason": stop, "stop_sequence": None}
    counted = {"output_tokens": usage["output_tokens"]}
    return [*events, {"type": "message_delta", "delta": ending, "usage": counted}, STOP]


def _make_block_events(index: int, block: Json) -> list[Json]:
    match block["type"]:
        case "text":
            opened = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in halve(block["text"])]
        case "thinking":
            opened = block | {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": p} for p in halve(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "redacted_thinking" | "web_search_tool_result":
            opened, deltas = block, []
        case _:
            opened = block | {"input": {}}
            parts = ["", *halve(dumps(block["input"]).decode())] if block["input"] else [""]
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return [
        {"type": "content_block_start", "index": index, "content_block": opened},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def halve(said: str) -> list[str]:
    middle = (len(said) + 1) // 2
    return [part for part in (said[:middle], said[middle:]) if part]


def frame(event: Json) -> bytes:
    return frame_line(dumps(event))


def frame_line(line: bytes) -> bytes:
    """Frame a JSON line as an event of its type."""
    return b"event: %b\ndata: %b\n\n" % (json.loads(line)["type"].encode(), line)


def frames(events: Iterable[Json]) -> list[bytes]:
    return [frame(event) for event in events]


def read_events(body: bytes) -> list[Json]:
    """Read events: each a name, data of that type and an empty line; pings are left out."""
    assert body == b"" or body.endswith(b"\n\n"), body[-80:]
    events: list[Json] = []
    for block in body.split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        if event["type"] != "ping":
            events.append(event)
    return events


def read_stream(body: bytes, model: str) -> list[Json]:
    """Check the order and schema of a whole stream that the gateway made."""
    events = read_events(body)
    check_events(events, model)
    return events


def read_broken_stream(body: bytes, model: str, kind: str, request_id: str) -> list[Json]:
    """Check a failed stream: one error event at the end, no `message_stop`."""
    *said, error = read_events(body)
    assert set(error) == {"type", "error", "request_id"}
    assert (error["type"], error["error"]["type"]) == ("error", kind)
    assert error["error"]["message"]
    assert error["request_id"] == request_id
    assert STOP not in said
    begun = [one for one in said if one["type"] != "message_delta"]
    check_events(begun, model, complete=False)
    return said


def check_events(events: Sequence[Json], model: str, *, complete: bool = True) -> None:
    """Check events against the schema and the order of Anthropic's "Streaming messages"."""
    for one in events:
        EVENTS.validate_python(one, strict=True)
    start, *rest = events
    assert start["type"] == "message_start"
    message = start["message"]
    assert set(message) == MESSAGE_KEYS
    assert set(message["usage"]) == USAGE_KEYS
    assert (message["model"], message["content"], message["stop_reason"]) == (model, [], None)
    assert message["id"].startswith("msg_")
    if complete:
        *rest, delta, stop = rest
        assert (delta["type"], stop) == ("message_delta", STOP)
        assert set(delta["delta"]) == DELTA_KEYS
        assert delta["delta"]["stop_reason"] is not None
        assert set(delta["usage"]) == DELTA_USAGE_KEYS
    _check_blocks(rest, complete=complete)


def _check_blocks(events: Iterable[Json], *, complete: bool) -> None:
    """Check that indexes count from 0, one block is open at a time, and deltas fit and say something."""
    index, kind = -1, None
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert kind is None
                index, kind = index + 1, event["content_block"]["type"]
                check_keys(event["content_block"])
            case "content_block_delta":
                assert kind is not None
                assert event["delta"]["type"] in DELTAS[kind]
                assert all(event["delta"].values())
            case "content_block_stop":
                assert kind is not None
                kind = None
            case other:
                raise AssertionError(other)
        assert event["index"] == index
    assert kind is None or not complete


def check_message(value: Json) -> Message:
    """Check a message that the gateway made against the published schema."""
    message = Message.model_validate(value, strict=True)
    assert set(value) == MESSAGE_KEYS
    assert set(value["usage"]) == USAGE_KEYS
    for block in value["content"]:
        check_keys(block)
    return message
