"""The complete JSON reply of a messages upstream, for a chat caller (wire.md §5.3). No I/O."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import Reply, ReplyContext
from gateway.dialects.chat_stream import ID_PREFIX, count_message_text
from gateway.dialects.from_messages_ending import (
    make_usage,
    measure_reply,
    read_refusal,
    to_finish_reason,
)
from gateway.dialects.jsonbytes import dumps_lenient
from gateway.dialects.messages_reply import read_message
from gateway.dialects.to_messages_tools import uses_functions

Json = dict[str, Any]


def from_messages_reply(body: bytes, context: ReplyContext, created: int) -> Reply:
    """A chat completion of what the upstream said; `created` is the time in epoch seconds.

    Raises UpstreamError when the body is no message, or is an error in a 200.
    """
    reply = read_message(body.strip())
    functions = uses_functions(context.request.body)
    message = _make_message(reply, functions=functions)
    called = "tool_calls" in message or "function_call" in message
    usage = _maybe_object(reply.get("usage"))
    text_bytes = count_message_text({**message, "refusal": None})
    tokens, estimated = measure_reply(usage, text_bytes, context, complete=True)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": to_finish_reason(
            reply.get("stop_reason"), called=called, functions=functions
        ),
    }
    completion = {
        "id": ID_PREFIX + context.request_id,
        "object": "chat.completion",
        "created": created,
        "model": context.request.model,
        "choices": [choice],
        "usage": make_usage(tokens, usage, estimated=estimated),
    }
    return Reply(dumps_lenient(completion), tokens, estimated)


def replay_messages_reply(body: bytes) -> bytes:
    """A JSON message as the events of a stream: an upstream may ignore `stream`.

    Raises UpstreamError as `from_messages_reply` does.
    """
    reply = read_message(body.strip())
    ending = {key: reply.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    start = {**reply, "content": [], "stop_reason": None, "stop_sequence": None}
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(_read_blocks(reply)):
        opened, deltas = _take_apart(block)
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += (
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        )
        events.append({"type": "content_block_stop", "index": index})
    events += (
        {"type": "message_delta", "delta": ending, "usage": reply.get("usage")},
        {"type": "message_stop"},
    )
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), dumps_lenient(event))
        for event in events
    )


def _take_apart(block: Json) -> tuple[Json, list[Json]]:
    """A block as it is opened, and the deltas that fill it; a kind without deltas is whole."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {**block, "text": ""}, [{"type": "text_delta", "text": text}]
        case {"type": "thinking", "thinking": str(thinking)}:
            deltas: list[Json] = [{"type": "thinking_delta", "thinking": thinking}]
            if (signature := block.get("signature")) is not None:
                deltas.append({"type": "signature_delta", "signature": signature})
            return {**block, "thinking": "", "signature": ""}, deltas
        case {"type": "tool_use", "input": held}:
            fragment = {"type": "input_json_delta", "partial_json": dump_arguments(held)}
            return {**block, "input": {}}, [fragment]
        case _:
            return block, []


def _read_blocks(reply: Json) -> list[Json]:
    return [block for block in reply["content"] if isinstance(block, dict)]


def _make_message(reply: Json, *, functions: bool) -> Json:
    blocks = _read_blocks(reply)
    calls = [_make_call(block) for block in blocks if block.get("type") == "tool_use"]
    text, reasoning = _join(blocks, "text"), _join(blocks, "thinking")
    message: Json = {
        "role": "assistant",
        "content": None if calls and not text else text,
        "refusal": read_refusal(reply.get("stop_reason"), reply.get("stop_details")),
    }
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls and functions:
        message["function_call"] = calls[0]["function"]
    elif calls:
        message["tool_calls"] = calls
    return message


def _join(blocks: list[Json], kind: str) -> str:
    """The text of all blocks of a kind, which is also the key it stands under."""
    texts = [block.get(kind) for block in blocks if block.get("type") == kind]
    return "".join(text for text in texts if isinstance(text, str))


def _make_call(block: Json) -> Json:
    arguments = dump_arguments(block.get("input"))
    function = {"name": block.get("name"), "arguments": arguments or NO_ARGUMENTS}
    return {"id": block.get("id"), "type": "function", "function": function}


NO_ARGUMENTS: Final = "{}"
"""What a call without arguments carries: callers read it as JSON."""


def dump_arguments(value: object) -> str:
    """Compact JSON of a tool's input, "" when there is none."""
    return dumps_lenient(value).decode() if value else ""


def _maybe_object(value: object) -> Json | None:
    return value if isinstance(value, dict) else None
