"""The rules of replies and streams that callers get, and of requests that providers get.

The checks are the SDKs' own: their models validate, their accumulators add up. In addition this module has
the rules that they do not check: names, order, indexes, and the required keys. `chat.kit` has those of chat.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai import omit
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from tests.dialects.chat.kit import DONE, MODEL, Json, Played, check_stream, read_chunks
from tests.support.messages import EVENTS, check_events, check_message


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


def check_message_events(events: list[Json], *, complete: bool = True) -> None:
    """Check a stream of the model that these tests ask for; a broken one may not have begun."""
    if events or complete:
        check_events(events, MODEL, complete=complete)


def add_up_message(events: list[Json]) -> Message:
    """Add up the events like Anthropic's stream helper."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for one in events:
        event = EVENTS.validate_python(one)
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    assert isinstance(snapshot, Message)
    return snapshot


def read_message(played: Played) -> Message:
    """Return the message of a stream that must be complete and keep all rules."""
    assert (played.complete, played.failure) == (True, None)
    events = read_events(played.out)
    check_message_events(events)
    return add_up_message(events)


_RESPONSE_EVENTS: Final[TypeAdapter[Any]] = TypeAdapter(ResponseStreamEvent)


RESPONSE_KEYS: Final = {
    *("id", "object", "created_at", "model", "output", "parallel_tool_calls", "tool_choice"),
    *("tools", "status", "error", "incomplete_details", "instructions", "metadata", "temperature"),
    *("top_p", "max_output_tokens", "previous_response_id", "reasoning", "store", "text"),
    *("truncation", "usage", "service_tier", "background", "user"),
}


TERMINAL: Final = ("response.completed", "response.incomplete")


def check_response_events(events: list[Json], *, complete: bool = True) -> None:
    """Check events against the schema and the order of OpenAI's "Streaming events"."""
    for one in events:
        _RESPONSE_EVENTS.validate_python(one, strict=True)
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
    """Check each item's events, and that one item is open at a time; return those done."""
    indexes = [one["output_index"] for one in events if one["type"].endswith("item.added")]
    assert indexes == list(range(len(indexes)))
    by_item = {index: [one for one in events if one["output_index"] == index] for index in indexes}
    assert {one["output_index"] for one in events} <= set(indexes)
    opened: int | None = None
    for one in events:
        if one["type"].endswith("output_item.added"):
            assert opened is None
            opened = one["output_index"]
        assert one["output_index"] == opened
        if one["type"].endswith("output_item.done"):
            opened = None
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
        case "compaction" | "image_generation_call":
            return []
        case _:
            return [item["arguments"]]


def add_up_response(events: list[Json]) -> Response:
    """Add up the events like OpenAI's stream helper."""
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    told: Any = None
    for one in events:
        for event in state.handle_event(_RESPONSE_EVENTS.validate_python(one)):
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
    check_response_events(events)
    response: Json = events[-1]["response"]
    assert as_sent(add_up_response(events)) == as_sent(Response.model_validate(response))
    return response


_MESSAGES_REQUEST: Final = TypeAdapter[Any](MessageCreateParamsNonStreaming)


def check_messages_request(made: Json) -> None:
    """Check that the SDK's types accept it and know each of its keys (they drop the others)."""
    body = {key: value for key, value in made.items() if key != "stream"}
    assert exhaust(_MESSAGES_REQUEST.validate_python(body)) == body


def exhaust(value: Any) -> Any:
    """Read iterables to their end, as Pydantic validates their content only then."""
    if isinstance(value, dict):
        return {key: exhaust(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [exhaust(item) for item in value]
    return value


_RESPONSES_REQUEST: Final = TypeAdapter[Any](ResponseCreateParamsNonStreaming)


def check_responses_request(made: Json) -> None:
    """Check that the SDK's types accept it and know each of its keys (they drop the others).

    An assistant's message has no id and no status: as Codex sends it, the API takes it without.
    """
    asked = {key: value for key, value in made.items() if key != "stream"}
    asked["input"] = [
        {**item, "id": "msg_1", "status": "completed"} if item.get("role") == "assistant" else item
        for item in made["input"]
    ]
    assert exhaust(_RESPONSES_REQUEST.validate_python(asked)) == asked


def check_reply(caller: str, body: bytes) -> Json:
    """Return a JSON reply that the caller's SDK takes, and that has all required keys."""
    reply: Json = json.loads(body)
    if caller == "chat":
        ChatCompletion.model_validate(reply, strict=True)
    elif caller == "messages":
        check_message(reply)
    else:
        Response.model_validate(reply, strict=True)
        assert set(reply) == RESPONSE_KEYS
    return reply


def add_up(caller: str, played: Played) -> Json:
    """Add up a stream by the caller's SDK."""
    assert (played.complete, played.failure) == (True, None)
    if caller == "responses":
        return read_response(played)
    if caller == "messages":
        told = read_events(played.out)
        check_message_events(told)
        return dict(add_up_message(told).model_dump())
    check_stream(played.chunks, usage=True)
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for one in played.chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(one, strict=True))
    return dict(state.get_final_completion().model_dump())


def check_rules(caller: str, out: bytes, *, complete: bool, usage: bool = True) -> None:
    """Check a stream of any dialect that the gateway wrote."""
    if caller == "chat":
        check_stream(read_chunks(out.removesuffix(DONE)), usage=usage, finished=complete)
    elif caller == "messages":
        check_message_events(read_events(out), complete=complete)
    else:
        check_response_events(read_events(out), complete=complete)
