"""A message as a chat completion: its blocks, its ending and its usage."""

from __future__ import annotations

from typing import Final

from gateway.dialects.chat.parts import make_annotation
from gateway.dialects.chat.usage import make_translated_usage
from gateway.dialects.chat.writer import (
    NO_ARGUMENTS,
    carry_state,
    make_completion,
    make_message,
    uses_functions,
)
from gateway.dialects.messages.history import maybe_thinking
from gateway.dialects.messages.upstream import dump_arguments, read_blocks
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.seals import seal

_PAGE: Final = "web_search_result_location"
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
    blocks, stop = read_blocks(reply), reply.get("stop_reason")
    calls = [_make_call(block) for block in blocks if block.get("type") == "tool_use"]
    thinking = [one for block in blocks if (one := maybe_thinking(block))]
    text, reasoning = _join(blocks, "text"), _join(blocks, "thinking")
    refusal = read_refusal(stop, reply.get("stop_details"))
    message = make_message(
        text, refusal, reasoning, calls, functions=functions, annotations=_read_sources(blocks)
    )
    if thinking:
        carry_state(message, seal(thinking, context.provider_tag), context)
    finish = to_finish_reason(stop, called=bool(calls), functions=functions)
    return make_completion(message, finish, context, make_usage(usage))


def _join(blocks: list[Json], kind: str) -> str:
    """Join the text of all blocks of a kind, which is also the key of the text."""
    return "".join(get_text(block, kind) for block in blocks if block.get("type") == kind)


def _read_sources(blocks: list[Json]) -> list[Json]:
    """Read the citations of all blocks, with the places of the blocks in their joined text."""
    found: list[Json] = []
    end = 0
    for block in blocks:
        if block.get("type") == "text":
            start, end = end, end + len(get_text(block, "text"))
            found += (cite(one, start, end) for one in read_citations(block))
    return found


def read_citations(block: Json) -> list[Json]:
    """Read the pages that a text block cites; places in documents of the request are left out."""
    given = get_list(block, "citations")
    return [one for one in given if isinstance(one, dict) and one.get("type") == _PAGE]


def cite(citation: Json, start: int, end: int) -> Json:
    """Write the annotation of the text from `start` to `end`."""
    page = {key: get_text(citation, key) for key in ("url", "title")}
    return make_annotation({"start_index": start, "end_index": end, **page})


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
