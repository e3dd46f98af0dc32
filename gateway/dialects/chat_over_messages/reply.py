"""A message as a chat completion: its blocks, its ending and its usage."""

from __future__ import annotations

from typing import Final

from gateway.dialects.chat import (
    ID_PREFIX,
    NO_ARGUMENTS,
    make_translated_usage,
    uses_functions,
)
from gateway.dialects.messages import dump_arguments, read_blocks
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.wire import get_object, get_text

FINISH_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""By stop reason; an unknown one is `stop`. A paused turn is not finished, so it is `length`."""


def translate_reply(reply: Json, context: ReplyContext, usage: Usage) -> Json:
    """Write a chat completion of what the upstream said."""
    functions = uses_functions(context.request.body)
    message = _make_message(reply, functions=functions)
    called = "tool_calls" in message or "function_call" in message
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": to_finish_reason(
            reply.get("stop_reason"), called=called, functions=functions
        ),
    }
    return {
        "id": ID_PREFIX + context.request_id,
        "object": "chat.completion",
        "created": context.created,
        "model": context.request.model,
        "choices": [choice],
        "usage": make_usage(usage),
    }


def _make_message(reply: Json, *, functions: bool) -> Json:
    blocks = read_blocks(reply)
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
    """Join the text of all blocks of a kind, which is also the key of the text."""
    return "".join(get_text(block, kind) for block in blocks if block.get("type") == kind)


def _make_call(block: Json) -> Json:
    arguments = dump_arguments(block.get("input"))
    function = {"name": block.get("name"), "arguments": arguments or NO_ARGUMENTS}
    return {"id": block.get("id"), "type": "function", "function": function}


def to_finish_reason(stop_reason: object, *, called: bool, functions: bool) -> str:
    """Map a stop reason. `called`: the reply has tool calls; `functions`: the caller knows no tools."""
    finish = FINISH_REASONS.get(stop_reason, "stop") if isinstance(stop_reason, str) else "stop"
    if finish == "stop" and called:
        finish = "tool_calls"
    return "function_call" if functions and finish == "tool_calls" else finish


def read_refusal(stop_reason: object, stop_details: object) -> str | None:
    """Read the upstream's explanation of a refusal, if it refused."""
    if stop_reason != "refusal" or not isinstance(stop_details, dict):
        return None
    return get_text(stop_details, "explanation") or None


def make_usage(usage: Usage) -> Json:
    """Write the usage object for the caller."""
    details = get_object(usage.reported or {}, "output_tokens_details")
    return make_translated_usage(usage, details.get("thinking_tokens"))
