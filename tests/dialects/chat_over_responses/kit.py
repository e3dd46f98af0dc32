"""Chat callers over Responses upstreams. The SDK's own types check the results."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from gateway.dialects.base import EventReader, Pipeline, Translation
from gateway.dialects.exchanges import TRANSLATIONS
from gateway.dialects.records import Event, ReplyContext, ReplyUsage, Target
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.sse import read_object
from gateway.dialects.wire.stream import TranslatedStream
from gateway.errors import BadRequest
from gateway.money import Tokens
from gateway.usage import Expected, Reported
from tests.dialects.chat.kit import Played, play
from tests.dialects.chat_over_messages.kit import exhaust, make_context, read_request

Json = dict[str, Any]
TARGET: Final = Target("their-model", reasoning="effort")
TRANSLATION: Final = TRANSLATIONS["chat", "responses"]
TERMINAL: Final = {"response.completed", "response.incomplete", "response.failed"}
_REQUEST_TYPE: Final = TypeAdapter[Any](ResponseCreateParamsNonStreaming)


def translate(target: Target = TARGET, **body: Any) -> Json:
    made = TRANSLATION.translate_request(read_request(**body), target)
    check_request(made)
    return made


def translate_messages(*messages: Json) -> list[Json]:
    """Return the items of a conversation, whose instructions are not taken out."""
    form = {"type": "json_object"}
    items: list[Json] = translate(messages=list(messages), response_format=form)["input"]
    return items


def find_refusal(target: Target = TARGET, **body: Any) -> str | None:
    """Return the field that a refusal names."""
    with pytest.raises(BadRequest) as caught:
        translate(target, **body)
    assert caught.value.param is not None
    assert caught.value.param in caught.value.message
    return caught.value.param


def refuse(*messages: Json) -> str | None:
    return find_refusal(messages=list(messages))


def check_request(made: Json) -> None:
    """Check that the SDK's types accept it and know each of its keys (they drop the others).

    An assistant's message has no id and no status: as Codex sends it, the API takes it without.
    """
    asked = {key: value for key, value in made.items() if key != "stream"}
    asked["input"] = [
        {**item, "id": "msg_1", "status": "completed"} if item.get("role") == "assistant" else item
        for item in made["input"]
    ]
    assert exhaust(_REQUEST_TYPE.validate_python(asked)) == asked


def say(role: str, *texts: str) -> Json:
    """Make a message item of texts."""
    if role == "assistant":
        content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    else:
        content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": role, "content": content}


def call(identity: str = "c1", name: str = "f", arguments: str = "{}") -> Json:
    """Make an item that calls a function."""
    return {"type": "function_call", "call_id": identity, "name": name, "arguments": arguments}


def read_tokens(usage: Json) -> Tokens:
    details = get_object(usage, "input_tokens_details")
    cached, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    return Tokens(usage["input_tokens"] - cached - written, cached, written, usage["output_tokens"])


def make_usage(reported: Json | None) -> ReplyUsage:
    tokens = Tokens(3, output=4) if reported is None else read_tokens(reported)
    return ReplyUsage(tokens, estimated=reported is None, reported=reported)


class PlainReader(EventReader):
    """A `EventReader` that gives every event as it is."""

    begun = False

    @property
    def finished(self) -> bool:
        return self.ended

    def read_event(self, event: Event) -> Json | None:
        if event.data is None:
            return None
        body = read_object(event)
        self.begun = True
        if get_text(body, "type") in TERMINAL:
            self.ended = True
            self.usage = get_object(body, "response").get("usage")
        return body

    def read_report(self, expected: Expected) -> Reported:  # noqa: ARG002
        return Reported(read_tokens(self.usage), True, True) if self.usage else Reported()


def open_stream(
    context: ReplyContext | None = None, translation: Translation = TRANSLATION
) -> Pipeline:
    context = context or make_context()
    return TranslatedStream(context, PlainReader(), translation.open_writer(context))


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
