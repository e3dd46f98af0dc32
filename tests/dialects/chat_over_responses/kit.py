"""Helpers for chat callers over Responses upstreams. The SDK's own types check the results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from gateway.dialects.base import Pipeline, Reader, Translation
from gateway.dialects.exchanges import CALLERS, TRANSLATIONS
from gateway.dialects.records import CompletionRequest, Event, ReplyContext, Target, Usage
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.sse import read_object
from gateway.dialects.wire.stream import TranslatedStream
from gateway.errors import BadRequest
from gateway.money import Tokens
from gateway.usage import Expected, Reported
from tests.dialects.chat.kit import make_context as make_chat_context

Json = dict[str, Any]

CREATED: Final = 1_700_000_000
TARGET: Final = Target("their-model", reasoning="effort")
TRANSLATION: Final = TRANSLATIONS["chat", "responses"]
TERMINAL: Final = {"response.completed", "response.incomplete", "response.failed"}
_REQUEST_TYPE: Final = TypeAdapter[Any](ResponseCreateParamsNonStreaming)


def read_request(**body: Any) -> CompletionRequest:
    """Read a request with the gateway's own validation."""
    whole = {"model": "our/model", "messages": [{"role": "user", "content": "Hi"}], **body}
    return CALLERS["chat"].parse_request(json.dumps(whole).encode())


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
    assert _exhaust(_REQUEST_TYPE.validate_python(asked)) == asked


def _exhaust(value: Any) -> Any:
    """Read iterables to their end, as Pydantic validates their content only then."""
    if isinstance(value, dict):
        return {key: _exhaust(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_exhaust(item) for item in value]
    return value


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


def make_context(*, usage: bool = False, limits: int = 10**6, **body: Any) -> ReplyContext:
    context = make_chat_context(usage=usage, limits=limits)
    request = replace(context.request, body=body)
    return replace(context, request=request, created=CREATED)


def read_tokens(usage: Json) -> Tokens:
    details = get_object(usage, "input_tokens_details")
    cached, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    return Tokens(usage["input_tokens"] - cached - written, cached, written, usage["output_tokens"])


def make_usage(reported: Json | None) -> Usage:
    tokens = Tokens(3, output=4) if reported is None else read_tokens(reported)
    return Usage(tokens, estimated=reported is None, reported=reported)


class PlainReader(Reader):
    """A `Reader` that gives every event as it is."""

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
