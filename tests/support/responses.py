"""The Responses API of providers: replies and events, made in the order that OpenAI sends them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.support.chat import Used
from tests.support.messages import halve, read_events
from tests.support.replies import Json, dumps

UPSTREAM_ID: Final = "resp_upstream0001"
UPSTREAM_MODEL: Final = "upstream-responses-2026"
USED: Final = Used(11, 7)


def ask(model: str, text: str = "Say hello, please.", **extra: Any) -> Json:
    """Make a request with one text and extra fields."""
    return {"model": model, "input": text, "max_output_tokens": 100, **extra}


def make_usage(used: Used) -> Json:
    details = {"cached_tokens": used.cached, "cache_write_tokens": used.written}
    return {
        "input_tokens": used.prompt,
        "input_tokens_details": details,
        "output_tokens": used.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.prompt + used.completion,
    }


def text(said: str, identity: str = "msg_1") -> Json:
    part = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def reasoning(thought: str, identity: str = "rs_1") -> Json:
    return {
        "id": identity,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": thought}],
    }


def call(call_id: str, name: str, arguments: Json, identity: str = "fc_1") -> Json:
    return {
        "id": identity,
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": dumps(arguments).decode(),
        "status": "completed",
    }


def make_response(
    output: Sequence[Json] | str = "Hello, world!",
    *,
    used: Used | None = USED,
    incomplete: str | None = None,
    **extra: Any,
) -> Json:
    """Make a whole reply; `incomplete` is the reason why it is not complete."""
    items = [text(output)] if isinstance(output, str) else list(output)
    reply: Json = {
        "id": UPSTREAM_ID,
        "object": "response",
        "created_at": 1770000000,
        "status": "incomplete" if incomplete else "completed",
        "error": None,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": UPSTREAM_MODEL,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None if used is None else make_usage(used),
        "metadata": {},
    }
    return reply | extra


def make_events(
    output: Sequence[Json] | str = "Hello, world!",
    *,
    used: Used | None = USED,
    incomplete: str | None = None,
) -> list[Json]:
    """Make a whole stream."""
    whole = make_response(output, used=used, incomplete=incomplete)
    begun = whole | {
        "status": "in_progress",
        "output": [],
        "usage": None,
        "incomplete_details": None,
    }
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        place = {"item_id": item["id"], "output_index": index}
        events += _make_item_events(item, place)
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _make_item_events(item: Json, place: Json) -> list[Json]:
    match item["type"]:
        case "message":
            (part,) = item["content"]
            opened = item | {"content": [], "status": "in_progress"}
            place = place | {"content_index": 0}
            inner = _make_part_events("response.content_part", "response.output_text", part, place)
        case "reasoning":
            opened = item | {"summary": []}
            place = place | {"summary_index": 0}
            kinds = ("response.reasoning_summary_part", "response.reasoning_summary_text")
            inner = [
                event
                for part in item["summary"]
                for event in _make_part_events(*kinds, part, place)
            ]
        case _:
            opened = item | {"arguments": "", "status": "in_progress"}
            name = "response.function_call_arguments"
            inner = [
                *(place | {"type": f"{name}.delta", "delta": p} for p in halve(item["arguments"])),
                place | {"type": f"{name}.done", "arguments": item["arguments"]},
            ]
    index = {"output_index": place["output_index"]}
    return [
        index | {"type": "response.output_item.added", "item": opened},
        *inner,
        index | {"type": "response.output_item.done", "item": item},
    ]


def _make_part_events(outer: str, name: str, part: Json, place: Json) -> list[Json]:
    return [
        place | {"type": f"{outer}.added", "part": part | {"text": ""}},
        *(place | {"type": f"{name}.delta", "delta": piece} for piece in halve(part["text"])),
        place | {"type": f"{name}.done", "text": part["text"]},
        place | {"type": f"{outer}.done", "part": part},
    ]


def frame(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), dumps(event))


def frames(events: Iterable[Json]) -> list[bytes]:
    return [frame(event) for event in events]


def read_stream(body: bytes, model: str, last: str) -> str:
    """Check the frame of a stream that the gateway made, and return its text."""
    events = read_events(body)
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", last)
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    replies = [one["response"] for one in events if "response" in one]
    assert {one["id"] for one in replies} == {replies[0]["id"]}
    if len(replies) > 1:
        assert {one["model"] for one in replies} <= {model, ""}
    assert (replies[-1]["error"] is None) is (last != "response.failed")
    return "".join(one["delta"] for one in events if one["type"] == "response.output_text.delta")
