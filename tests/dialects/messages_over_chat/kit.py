"""Messages callers over chat upstreams: contexts, requests, and checks of events.

The checks are Anthropic's own: its models validate, its accumulator adds up. In addition this
module has the rules that the SDKs do not check: names, order, indexes, and the required keys.
"""

from __future__ import annotations

import json
from typing import Any, Final

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from gateway.dialects.base import Pipeline
from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import CompletionRequest, Reply, ReplyContext, Target
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    MODEL,
    Json,
    Played,
    choice,
    chunk,
    events,
    play,
    role,
    stop,
)

EXCHANGE: Final = EXCHANGES["messages"]["chat"]
TARGET: Final = Target("theirs")
_EVENTS: Final[TypeAdapter[Any]] = TypeAdapter(RawMessageStreamEvent)
MESSAGE_KEYS: Final = {
    *("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details"),
    *("container", "usage"),
}
DELTA_KEYS: Final = {"stop_reason", "stop_sequence", "stop_details", "container"}
DELTA_USAGE_KEYS: Final = {
    *("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"),
    *("output_tokens_details", "server_tool_use"),
}
USAGE_KEYS: Final = DELTA_USAGE_KEYS | {"cache_creation", "inference_geo", "service_tier"}
BLOCK_KEYS: Final = {
    "text": {"type", "text", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "tool_use": {"type", "id", "name", "input", "caller"},
}
DELTA_OF: Final = {
    "text": "text_delta",
    "thinking": "thinking_delta",
    "tool_use": "input_json_delta",
}


def make_request(body: Json) -> CompletionRequest:
    stream = body.get("stream") is True
    return CompletionRequest(body, MODEL, stream, True, 1, body.get("max_tokens"), 0, 0)


def make_context(body: Json | None = None, *, limits: int = 10**6) -> ReplyContext:
    request = make_request(body or {"stream": True})
    expected = Expected(INPUT_ESTIMATE, UsageLimits(limits, limits, limits))
    return ReplyContext(request, "request-1", expected, created=1)


def open_stream(body: Json | None = None, *, limits: int = 10**6) -> Pipeline:
    return EXCHANGE.open_stream(make_context(body, limits=limits))


def play_whole(data: bytes, body: Json | None = None) -> Played:
    return play(open_stream(body), [data])


def read_events(out: bytes) -> list[Json]:
    """Read events; each is exactly `event: NAME`, `data: {…}` of that type and an empty line."""
    assert out == b"" or out.endswith(b"\n\n")
    found: list[Json] = []
    for block in out.split(b"\n\n")[:-1]:
        if block.startswith(b":"):
            continue
        name, data = block.split(b"\n")
        one = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + one["type"].encode()
        found.append(one)
    return found


def check_events(events: list[Json], *, complete: bool = True) -> None:
    """Check events against the schema and the order of Anthropic's "Streaming messages"."""
    for one in events:
        _EVENTS.validate_python(one, strict=True)
    if not events:
        assert not complete
        return
    start, *rest = events
    assert start["type"] == "message_start"
    assert set(start["message"]) == MESSAGE_KEYS
    assert set(start["message"]["usage"]) == USAGE_KEYS
    assert (start["message"]["content"], start["message"]["stop_reason"]) == ([], None)
    assert start["message"]["model"] == MODEL
    if complete:
        *rest, delta, stop = rest
        assert (delta["type"], stop) == ("message_delta", {"type": "message_stop"})
        assert set(delta["delta"]) == DELTA_KEYS
        assert delta["delta"]["stop_reason"] is not None
        assert set(delta["usage"]) == DELTA_USAGE_KEYS
    _check_blocks(rest, complete=complete)


def _check_blocks(events: list[Json], *, complete: bool) -> None:
    """Check that indexes count from 0, one block is open at a time, and no delta is empty."""
    opened = -1
    kind: str | None = None
    for one in events:
        match one["type"]:
            case "content_block_start":
                assert kind is None
                opened += 1
                kind = one["content_block"]["type"]
                assert set(one["content_block"]) == BLOCK_KEYS[kind]
            case "content_block_delta":
                assert kind is not None
                if one["delta"]["type"] == "citations_delta":
                    assert kind == "text"
                else:
                    assert one["delta"]["type"] == DELTA_OF[kind]
                assert all(one["delta"].values())
            case "content_block_stop":
                assert kind is not None
                kind = None
            case other:
                raise AssertionError(other)
        assert one["index"] == opened
    assert kind is None or not complete


def accumulate(events: list[Json]) -> Message:
    """Add up the events like Anthropic's stream helper."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for one in events:
        event = _EVENTS.validate_python(one)
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    assert isinstance(snapshot, Message)
    return snapshot


def read_message(played: Played) -> Message:
    """Return the message of a stream that must be complete and keep all rules."""
    assert (played.complete, played.failure) == (True, None)
    events = read_events(played.out)
    check_events(events)
    return accumulate(events)


def check_reply(reply: Reply) -> Json:
    """Return the message of a JSON reply, checked by Anthropic's model and for all required keys."""
    message: Json = json.loads(reply.body)
    Message.model_validate(message, strict=True)
    assert set(message) == MESSAGE_KEYS
    assert set(message["usage"]) == USAGE_KEYS
    assert all(set(block) == BLOCK_KEYS[block["type"]] for block in message["content"])
    return message


USAGE: Json = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
USED = Tokens(5, 0, 0, 3)


def completion(message: Json, finish: str | None = "stop", **fields: Any) -> Json:
    one = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    extra = fields.pop("choice", {})
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "theirs"}
    return {**head, "choices": [{**one, **extra}], "usage": USAGE, **fields}


def call(identity: Any = "c1", name: Any = "f", arguments: Any = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def fragment(position: int = 0, arguments: str | None = "", **fields: Any) -> Json:
    name = fields.pop("name", None)
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return choice({"tool_calls": [{"index": position, **fields, "function": function}]})


def begin(position: int, arguments: str = "") -> Json:
    """Make the first fragment of the call `f{position}` with the id `c{position}`."""
    names = {"id": f"c{position}", "type": "function", "name": f"f{position}"}
    return fragment(position, arguments, **names)


def stream(*choices: Json, finish: str = "stop", usage: Json | None = USAGE) -> bytes:
    """Make a whole stream of these choices, with its role chunk, usage and end."""
    chunks = [chunk(one) for one in (role(), *choices, stop(finish=finish))]
    tail = [] if usage is None else [chunk(usage=usage)]
    return events(*chunks, *tail) + DONE


def kinds_of(out: bytes) -> list[str]:
    return [one["type"] for one in read_events(out)]


def starts_of(out: bytes) -> list[str]:
    return [
        one["content_block"]["type"]
        for one in read_events(out)
        if one["type"] == "content_block_start"
    ]


AZURE: Final = {**chunk(), "id": "", "object": "", "model": "", "prompt_filter_results": []}
"""The first frame of Azure's streams, which has no choices and no other content."""
USER: Json = {"role": "user", "content": "hi"}
TOOL: Json = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
FUNCTION: Json = {"name": "f", "parameters": {"type": "object", "properties": {}}}
PDF: Json = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
PNG: Json = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
CACHED: Json = {"cache_control": {"type": "ephemeral"}}
BILLING: Json = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1"}


def write(target: Target = TARGET, **fields: Any) -> Json:
    body = {"model": "our/model", "max_tokens": 9, "messages": [USER], **fields}
    written: Json = json.loads(EXCHANGE.write_request(make_request(body), target).data)
    return written


def write_messages(*messages: Json, **fields: Any) -> list[Json]:
    written: list[Json] = write(messages=list(messages), **fields)["messages"]
    return written


def text(said: str, **fields: Any) -> Json:
    return {"type": "text", "text": said, **fields}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def tool_use(identity: str = "t1", name: str = "f", **fields: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": {}, **fields}


def tool_result(identity: str = "t1", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": identity, **fields}
