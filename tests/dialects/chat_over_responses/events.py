"""Events of Responses streams for the tests of chat callers, and the chunks they become."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.dialects.chat.kit import Played, play
from tests.dialects.chat_over_responses.kit import call, make_context, open_stream

Json = dict[str, Any]

USAGE: Final = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 30,
}
ROLE: Final = {"role": "assistant", "content": "", "refusal": None}
STARTED: Final = [
    {"type": kind, "response": {"id": "resp_1", "status": "in_progress", "output": []}}
    for kind in ("response.created", "response.in_progress")
]


def message(*parts: Json) -> Json:
    """Make an item of what was said."""
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": list(parts)}


def text(said: str) -> Json:
    return {"type": "output_text", "text": said, "annotations": []}


def refusal(said: str) -> Json:
    return {"type": "refusal", "refusal": said}


def reasoning(*summaries: str) -> Json:
    parts = [{"type": "summary_text", "text": said} for said in summaries]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "x"}


def custom(identity: str = "c1", name: str = "f", given: str = "") -> Json:
    return {"type": "custom_tool_call", "call_id": identity, "name": name, "input": given}


def added(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def event(kind: str, index: int = 0, **fields: Any) -> Json:
    return {"type": f"response.{kind}", "item_id": "x", "output_index": index, **fields}


def write_message(item: Json, index: int = 0) -> list[Json]:
    """Write a message as the API streams it; each text in two fragments."""
    events = [added({**item, "content": []}, index)]
    for number, part in enumerate(item["content"]):
        where = {"index": index, "content_index": number}
        kind, key = part["type"], "refusal" if part["type"] == "refusal" else "text"
        events += (
            event("content_part.added", **where, part={**part, key: ""}),
            *(event(f"{kind}.delta", **where, delta=piece) for piece in split(part[key])),
            event(f"{kind}.done", **where, **{key: part[key]}),
            event("content_part.done", **where, part=part),
        )
    return [*events, done(item, index)]


def write_reasoning(item: Json, index: int = 0) -> list[Json]:
    events = [added({**item, "summary": []}, index)]
    for number, part in enumerate(item["summary"]):
        where, kind = {"index": index, "summary_index": number}, "reasoning_summary_text"
        events += (
            event("reasoning_summary_part.added", **where, part={**part, "text": ""}),
            *(event(f"{kind}.delta", **where, delta=piece) for piece in split(part["text"])),
            event(f"{kind}.done", **where, text=part["text"]),
            event("reasoning_summary_part.done", **where, part=part),
        )
    return [*events, done(item, index)]


def write_call(item: Json, index: int = 0) -> list[Json]:
    is_custom = item["type"] == "custom_tool_call"
    kind = "custom_tool_call_input" if is_custom else "function_call_arguments"
    key = "input" if is_custom else "arguments"
    return [
        added({**item, key: ""}, index),
        *(event(f"{kind}.delta", index, delta=piece) for piece in split(item[key])),
        event(f"{kind}.done", index, **{key: item[key]}),
        done(item, index),
    ]


WRITERS: Final = {
    "message": write_message,
    "reasoning": write_reasoning,
    "function_call": write_call,
    "custom_tool_call": write_call,
}


def split(said: str) -> list[str]:
    half = len(said) // 2
    return [piece for piece in (said[:half], said[half:]) if piece]


def end(status: str = "completed", usage: Json | None = None, **fields: Any) -> Json:
    """Make the terminal event. Its `output` is empty, as some upstreams leave it."""
    held = {"id": "resp_1", "status": status, "output": [], "usage": usage, **fields}
    return {"type": f"response.{status}", "response": held}


def write_items(*items: Json) -> list[Json]:
    """Write the events of whole items."""
    return [each for index, item in enumerate(items) for each in WRITERS[item["type"]](item, index)]


def frame(*events: Json) -> bytes:
    """Write the events as bytes, numbered."""
    return b"".join(
        b"event: %b\ndata: %b\n\n"
        % (each["type"].encode(), json.dumps({**each, "sequence_number": number}).encode())
        for number, each in enumerate(events)
    )


def play_events(*events: Json, usage: bool = False, **body: Any) -> Played:
    context = make_context(usage=usage, **body)
    return play(open_stream(context), [frame(*STARTED, *events)])


def told(played: Played) -> list[Any]:
    """Return the deltas behind the first; for the last chunk of a choice, the finish reason."""
    first, *rest = played.choices
    assert first["delta"] == ROLE
    return [choice["finish_reason"] or choice["delta"] for choice in rest]


def begin_tool(number: int, identity: str = "c1", name: str = "f") -> Json:
    """Make the first fragment of a call."""
    function = {"name": name, "arguments": ""}
    return {
        "tool_calls": [{"index": number, "id": identity, "type": "function", "function": function}]
    }


def argue(number: int, arguments: str) -> Json:
    return {"tool_calls": [{"index": number, "function": {"arguments": arguments}}]}


ITEMS: Final = (
    reasoning("So so. ", "Hm."),
    message(text("Grüße, "), text("Welt 🎉")),
    call("c1", "f", '{"a":1}'),
    call("c2", "g", "{}"),
)
"""A reply with everything, but a refusal."""
REASONED: Final = "So so. \n\nHm."
SPOKEN: Final = "Grüße, Welt 🎉"
