"""What a reply says whatever its dialect, so that two dialects can be held against each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from support.chat import Used
from support.recorded import Said
from support.replies import Json

FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Chat's words by messages'; chat has fewer."""
USED: Final = Used(11, 7)


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Json


@dataclass(slots=True)
class Told:
    """Text, reasoning, calls, why it ended (in chat's words) and what it used."""

    text: str = ""
    thinking: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish: str | None = "stop"
    used: Used | None = USED


def of_chat(said: Said) -> Told:
    """Of chunks added up. What was written to a cache they do not tell."""
    choice = said.choices[0]
    calls = [
        ToolCall(call.id, call.name, json.loads(call.arguments))
        for call in choice.tool_calls.values()
    ]
    used = None
    if said.usage is not None:
        used = Used(said.usage[0], said.usage[1], said.cached_tokens)
    return Told(choice.text, choice.reasoning, calls, choice.finish_reason, used)


def of_events(events: Iterable[Json]) -> Told:
    """Of a messages stream, by a reading of our own: counts are cumulative, the last one stands."""
    told = Told(finish=None, used=None)
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
            case {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts}:
                told.finish = FINISH[reason]
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
    """A messages usage, whose classes are disjoint, as chat counts."""
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    prompt = usage["input_tokens"] + cached + written
    return Used(prompt, usage["output_tokens"], cached, written)
