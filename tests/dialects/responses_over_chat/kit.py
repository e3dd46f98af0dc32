"""Responses callers over chat upstreams: contexts, requests, and checks of events.

The checks are OpenAI's own: its models validate, the state of its stream helper adds up. In addition
this module has the rules that the SDK does not check: names, numbers, order, pairs, required keys.
"""

from __future__ import annotations

import json
from typing import Any, Final

from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.dialects.base import Pipeline
from gateway.dialects.exchanges import CALLERS, TRANSLATIONS, UPSTREAMS, Exchange
from gateway.dialects.records import CompletionRequest, Reply, ReplyContext, Target
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL, Json, Played, play
from tests.dialects.messages_over_chat.kit import read_events

EXCHANGE: Final = Exchange(CALLERS["chat"], UPSTREAMS["chat"], TRANSLATIONS["responses", "chat"])
"""The caller's part has nothing to do with the translation."""
TARGET: Final = Target("theirs")
_EVENTS: Final[TypeAdapter[Any]] = TypeAdapter(ResponseStreamEvent)
RESPONSE_KEYS: Final = {
    *("id", "object", "created_at", "model", "output", "parallel_tool_calls", "tool_choice"),
    *("tools", "status", "error", "incomplete_details", "instructions", "metadata", "temperature"),
    *("top_p", "max_output_tokens", "previous_response_id", "reasoning", "store", "text"),
    *("truncation", "usage", "service_tier", "background", "user"),
}
TERMINAL: Final = ("response.completed", "response.incomplete")
PATCH: Final[Json] = {"type": "custom", "name": "patch", "description": "Edits files."}
SPACE: Final[Json] = {
    "type": "namespace",
    "name": "ns",
    "description": "d",
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "custom", "name": "c"},
    ],
}


def make_request(body: Json) -> CompletionRequest:
    stream = body.get("stream") is True
    return CompletionRequest(body, MODEL, stream, True, 1, body.get("max_output_tokens"), 0, 0)


def make_context(body: Json | None = None, *, limits: int = 10**6) -> ReplyContext:
    request = make_request({"stream": True} if body is None else body)
    expected = Expected(INPUT_ESTIMATE, UsageLimits(limits, limits, limits))
    return ReplyContext(request, "request-1", expected, created=1)


def open_stream(body: Json | None = None) -> Pipeline:
    return EXCHANGE.open_stream(make_context(body))


def play_whole(data: bytes, body: Json | None = None) -> Played:
    return play(open_stream(body), [data])


def kinds_of(out: bytes) -> list[str]:
    return [one["type"].removeprefix("response.") for one in read_events(out)]


def check_events(events: list[Json], *, complete: bool = True) -> None:
    """Check events against the schema and the order of OpenAI's "Streaming events"."""
    for one in events:
        _EVENTS.validate_python(one, strict=True)
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    if not events:
        assert not complete
        return
    assert [one["type"] for one in events[:2]] == ["response.created", "response.in_progress"]
    told = [one["response"] for one in events if "response" in one]
    assert {one["id"] for one in told} == {"resp_request-1"}
    assert all(set(one) == RESPONSE_KEYS for one in told)
    assert all((one["status"], one["output"]) == ("in_progress", []) for one in told[:2])
    terminal = [number for number, one in enumerate(events) if one["type"] in TERMINAL]
    assert len(told) == 2 + len(terminal)
    assert terminal == ([len(events) - 1] if complete else [])
    done = _check_items([one for one in events if "response" not in one], complete=complete)
    if complete:
        assert told[-1]["output"] == done
        assert events[-1]["type"] == f"response.{told[-1]['status']}"


def _check_items(events: list[Json], *, complete: bool) -> list[Json]:
    """Check each item's events, and that one item of text is open at a time; return those done."""
    indexes = [one["output_index"] for one in events if one["type"].endswith("item.added")]
    assert indexes == list(range(len(indexes)))
    by_item = {index: [one for one in events if one["output_index"] == index] for index in indexes}
    assert {one["output_index"] for one in events} <= set(indexes)
    speaking: int | None = None
    for one in events:
        is_said = by_item[one["output_index"]][0]["item"]["type"] in {"message", "reasoning"}
        if one["type"].endswith("output_item.added"):
            assert speaking is None
        if is_said:
            assert speaking in (None, one["output_index"])
            ends = one["type"].endswith("output_item.done")
            speaking = None if ends else one["output_index"]
    done = [_check_item(by_item[index], complete=complete) for index in indexes]
    return [item for item in done if item is not None]


def _check_item(events: list[Json], *, complete: bool) -> Json | None:
    """Check that an item begins and ends once, empty and whole, with the sum of its deltas."""
    first, *rest = events
    begun = first["item"]
    assert all(one.get("item_id", begun["id"]) == begun["id"] for one in rest)
    assert begun.get("status", "in_progress") == "in_progress"
    said: dict[tuple[str, int], str] = {}
    for one in rest:
        kind, _, stage = str(one["type"]).rpartition(".")
        part = one["content_index"] if "content_index" in one else one.get("summary_index") or 0
        if stage == "delta":
            assert one["delta"]
            said[kind, part] = said.get((kind, part), "") + one["delta"]
        elif stage == "done" and not kind.endswith(("item", "part")):
            key = {"arguments", "input", "text", "refusal"} & set(one)
            assert one[key.pop()] == said.get((kind, part), "")
    assert not any(one["type"].endswith("item.added") for one in rest)
    ends = [one for one in rest if one["type"].endswith("item.done")]
    if not ends:
        assert not complete
        return None
    assert ends == [rest[-1]]
    item: Json = rest[-1]["item"]
    fixed = {"id", "type", "role", "call_id", "name", "namespace"}
    assert {key: begun[key] for key in fixed & set(begun)} == {
        key: item[key] for key in fixed & set(item)
    }
    assert item.get("status") != "in_progress"
    assert "".join(said.values()) == "".join(texts_of(item))
    return item


def texts_of(item: Json) -> list[str]:
    """Return all that an item says, in order."""
    match item["type"]:
        case "message":
            return [part.get("text", part.get("refusal")) for part in item["content"]]
        case "reasoning":
            return [part["text"] for part in item["summary"]]
        case "custom_tool_call":
            return [item["input"]]
        case "image_generation_call":
            return []
        case _:
            return [item["arguments"]]


def accumulate(events: list[Json]) -> Response:
    """Add up the events like OpenAI's stream helper."""
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    told: Any = None
    for one in events:
        for event in state.handle_event(_EVENTS.validate_python(one)):
            told = getattr(event, "response", told)
    assert isinstance(told, Response)
    return told


def as_sent(response: Response) -> list[Any]:
    """Return the items of a response without what the stream helper read in them."""
    made: Any = {"parsed_arguments": True, "content": {"__all__": {"parsed"}}}
    return [item.model_dump(exclude_unset=True, exclude=made) for item in response.output]


def read_response(played: Played) -> Json:
    """Return the response of a stream that must be complete and keep all rules."""
    assert (played.complete, played.failure) == (True, None)
    events = read_events(played.out)
    check_events(events)
    response: Json = events[-1]["response"]
    assert as_sent(accumulate(events)) == as_sent(Response.model_validate(response))
    return response


def check_reply(reply: Reply) -> Json:
    """Return a JSON reply, checked by OpenAI's own model and for all required keys."""
    response: Json = json.loads(reply.body)
    Response.model_validate(response, strict=True)
    assert set(response) == RESPONSE_KEYS
    return response


FUNCTION: Json = {
    "name": "f",
    "description": "Does f.",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
}
TOOL: Json = {"type": "function", **FUNCTION}
PNG_URL = "data:image/png;base64,iVBO"
PNG: Json = {"type": "input_image", "image_url": PNG_URL, "detail": "auto"}


def write(target: Target = TARGET, /, **fields: Any) -> Json:
    """Return the chat request, which our own validation of chat callers takes as well."""
    body = {"model": "our/model", "input": "hi", **fields}
    data = EXCHANGE.write_request(make_request(body), target).data
    CALLERS["chat"].parse_request(data)
    written: Json = json.loads(data)
    return written


def write_messages(*items: Json, **fields: Any) -> list[Json]:
    written: list[Json] = write(input=list(items), **fields)["messages"]
    return written


def text(said: str, kind: str = "input_text") -> Json:
    return {"type": kind, "text": said}


def message(role: str, content: Any) -> Json:
    return {"type": "message", "role": role, "content": content}


def function_call(identity: str = "c1", name: str = "f", **fields: Any) -> Json:
    call = {"type": "function_call", "call_id": identity, "name": name, "arguments": "{}"}
    return {**call, **fields}


def output(identity: str = "c1", said: Any = "done", kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": identity, "output": said}


def called(*calls: Json, content: str | None = None) -> Json:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(identity: str = "c1", content: str = "done") -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def user(content: Any) -> Json:
    return {"role": "user", "content": content}
