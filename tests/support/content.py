"""The content of a reply, independent of its dialect, so that two dialects can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.accumulated import StreamContent, accumulate
from tests.support.chat import Used
from tests.support.replies import Json

FINISH: Final = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls",
    "refusal": "content_filter",
}  # fmt: skip
"""Chat's finish reasons for the messages API's stop reasons."""
USED: Final = Used(11, 7)


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Json


@dataclass(slots=True)
class Content:
    """Text, reasoning, calls, the finish reason (in chat's words) and the usage of a reply."""

    text: str = ""
    thinking: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish: str | None = "stop"
    used: Used | None = USED


def of_chat(said: StreamContent) -> Content:
    """Read it from accumulated chunks; a refusal counts as text, whatever the finish reason."""
    choice = said.choices[0]
    calls = [
        ToolCall(call.id, call.name, json.loads(call.arguments))
        for call in choice.tool_calls.values()
    ]
    used = None
    if said.usage is not None:
        used = Used(said.usage[0], said.usage[1], said.cached_tokens, said.written_tokens)
    finish = "content_filter" if choice.refusal else choice.finish_reason
    return Content(choice.text + choice.refusal, choice.reasoning, calls, finish, used)


def of_completion(whole: Mapping[str, Any]) -> Content:
    """Read it from a whole completion."""
    choices = [one | {"delta": one["message"]} for one in whole["choices"]]
    return of_chat(accumulate([{**whole, "choices": choices}]))


def of_events(events: Iterable[Json]) -> Content:
    """Read it from a messages stream, whose counts are cumulative.

    The words of a refusal count as text, unless they were sent as text already.
    """
    told = Content(finish=None, used=None)
    usage: Json = {}
    fragments: list[str] = []
    for event in events:
        match event:
            case {"type": "message_start", "message": {"usage": counts}}:
                usage |= counts
            case {"content_block": {"type": "tool_use", "id": identity, "name": name}}:
                told.calls.append(ToolCall(identity, name, {}))
                fragments.append("")
            case {"delta": {"type": "text_delta", "text": said}}:
                told.text += said
            case {"delta": {"type": "thinking_delta", "thinking": thought}}:
                told.thinking += thought
            case {"delta": {"type": "input_json_delta", "partial_json": fragment}}:
                fragments[-1] += fragment
            case {"type": "message_delta", "delta": delta, "usage": counts}:
                told.finish = FINISH[delta["stop_reason"]]
                told.text = told.text or (delta.get("stop_details") or {}).get("explanation") or ""
                usage |= counts
            case _:
                pass
    told.calls = [
        ToolCall(call.id, call.name, json.loads(arguments or "{}"))
        for call, arguments in zip(told.calls, fragments, strict=True)
    ]
    told.used = read_usage(usage)
    return told


def read_usage(usage: Mapping[str, Any]) -> Used:
    """Convert a messages usage, whose classes are disjoint, to chat's counts."""
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    prompt = usage["input_tokens"] + cached + written
    return Used(prompt, usage["output_tokens"], cached, written)


def read_blocks(blocks: Sequence[Json]) -> tuple[str, str, list[ToolCall]]:
    """Read text, reasoning and calls of a message's blocks."""
    said, thought = (
        "".join(one[kind] for one in blocks if one["type"] == kind) for kind in ("text", "thinking")
    )
    calls = [one for one in blocks if one["type"] == "tool_use"]
    return said, thought, [ToolCall(one["id"], one["name"], one["input"]) for one in calls]


def of_message(whole: Json) -> Content:
    """Read it from a whole message."""
    finish = FINISH[whole["stop_reason"]]
    return Content(*read_blocks(whole["content"]), finish, read_usage(whole["usage"]))


def read_items(items: Iterable[Json]) -> tuple[str, str, list[ToolCall]]:
    """Read text, reasoning and calls of a response's items; the words of a refusal are text."""
    said, thought, calls = "", "", []
    for item in items:
        match item:
            case {"type": "message", "content": parts}:
                said += "".join(one.get("text") or one.get("refusal") or "" for one in parts)
            case {"type": "reasoning"}:
                parts = [*item["summary"], *(item.get("content") or [])]
                thought += "".join(one["text"] for one in parts)
            case {"call_id": identity, "name": name, "arguments": arguments}:
                calls.append(ToolCall(identity, name, json.loads(arguments or "{}")))
            case {"call_id": identity, "name": name, "input": free}:
                calls.append(ToolCall(identity, name, {"input": free}))
            case _:
                pass
    return said, thought, calls


def of_response(response: Json) -> Content:
    """Read it from a whole response."""
    said, thought, calls = read_items(response["output"])
    reason = (response.get("incomplete_details") or {}).get("reason")
    reason = reason or ("tool_calls" if calls else "stop")
    usage = response["usage"]
    details = usage.get("input_tokens_details") or {}
    used = Used(
        *(usage["input_tokens"], usage["output_tokens"]),
        *(details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0),
    )
    assert usage["total_tokens"] == used.prompt + used.completion
    return Content(said, thought, calls, {"max_output_tokens": "length"}.get(reason, reason), used)
