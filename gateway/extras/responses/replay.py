"""A whole response, or an item of one, as the events of a stream."""

from __future__ import annotations

from itertools import count
from typing import Any

from gateway.dialects.wire.jsonbytes import get_list, get_text
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.sse import render_event


def replay_response(response: Json) -> bytes:
    """Write the events of a response, in their order, numbered."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    status = get_text(response, "status") or "incomplete"
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    items = (item for item in get_list(response, "output") if type(item) is dict)
    for index, item in enumerate(items):
        events += replay_item(index, item)
    if status in ("completed", "incomplete"):
        events.append({"type": f"response.{status}", "response": response})
    numbers = count()
    return b"".join(
        render_event({"type": one["type"], "sequence_number": next(numbers), **one})
        for one in events
    )


def replay_item(index: int, item: Json) -> list[Json]:
    """Write the events of one item."""
    where = {"output_index": index, "item_id": get_text(item, "id")}
    deltas: list[Json] = []
    empty = {**item, "status": "in_progress"}
    match item:
        case {"type": "message", "content": list(parts)}:
            empty["content"] = []
            for number, part in enumerate(parts):
                deltas += _replay_part({**where, "content_index": number}, part)
        case {"type": "reasoning"}:
            empty = {**item, "summary": []}
            for number, part in enumerate(get_list(item, "summary")):
                deltas += _replay_summary({**where, "summary_index": number}, part)
        case {"type": "function_call", "arguments": str(said)}:
            empty["arguments"] = ""
            kind, done = "response.function_call_arguments", {"arguments": said}
            deltas = _say(kind, where, said, {**done, "name": get_text(item, "name")})
        case {"type": "custom_tool_call", "input": str(said)}:
            empty["input"] = ""
            deltas = _say("response.custom_tool_call_input", where, said, {"input": said})
        case _:
            pass
    at = {"output_index": index}
    return [
        {"type": "response.output_item.added", **at, "item": empty},
        *deltas,
        {"type": "response.output_item.done", **at, "item": item},
    ]


def _say(kind: str, where: Json, said: str, done: Json) -> list[Json]:
    """Write a text as one delta and its end."""
    return [
        {"type": f"{kind}.delta", **where, "delta": said},
        {"type": f"{kind}.done", **where, **done},
    ]


def _replay_part(where: Json, part: Any) -> list[Json]:
    match part:
        case {"type": "output_text", "text": str(text)}:
            empty = {**part, "text": "", "annotations": []}
            said = _say("response.output_text", {**where, "logprobs": []}, text, {"text": text})
        case {"type": "refusal", "refusal": str(text)}:
            empty = {**part, "refusal": ""}
            said = _say("response.refusal", where, text, {"refusal": text})
        case dict():
            empty, said = part, []
        case _:
            return []
    return [
        {"type": "response.content_part.added", **where, "part": empty},
        *said,
        {"type": "response.content_part.done", **where, "part": part},
    ]


def _replay_summary(where: Json, part: Any) -> list[Json]:
    match part:
        case {"text": str(text)}:
            kind = "response.reasoning_summary"
            return [
                {"type": f"{kind}_part.added", **where, "part": {**part, "text": ""}},
                *_say(f"{kind}_text", where, text, {"text": text}),
                {"type": f"{kind}_part.done", **where, "part": part},
            ]
        case _:
            return []
