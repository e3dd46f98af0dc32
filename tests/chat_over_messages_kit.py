"""What the tests of chat callers over messages upstreams share. The SDKs' own types are the judges."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from chat_kit import make_context as make_chat_context
from pydantic import TypeAdapter

from gateway.dialects.base import CompletionRequest, ReplyContext, Target
from gateway.dialects.chat_over_messages import ChatOverMessages
from gateway.dialects.chat_request import parse_chat_request
from gateway.dialects.from_messages_stream import MessagesAsChat
from gateway.errors import BadRequest
from gateway.money import Tokens

Json = dict[str, Any]

FOLDER: Final = Path(__file__).resolve().parents[2] / "shared" / "streams" / "messages"
RECORDINGS: Final = ("text", "thinking", "tool-json", "tool-no-args", "usage-revised")
CREATED: Final = 1_700_000_000
TARGET: Final = Target("their-model", max_output_tokens=5000)
EXCHANGE: Final = ChatOverMessages()
_REQUEST_TYPE: Final = TypeAdapter[Any](MessageCreateParamsNonStreaming)


def read_request(**body: Any) -> CompletionRequest:
    """As the surface reads it: with the gateway's own validation."""
    whole = {"model": "our/model", "messages": [{"role": "user", "content": "Hi"}], **body}
    return parse_chat_request(json.dumps(whole).encode())


def translate(target: Target = TARGET, **body: Any) -> Json:
    made: Json = json.loads(EXCHANGE.write_request(read_request(**body), target))
    return made


def find_refusal(target: Target = TARGET, **body: Any) -> str | None:
    """The field that a refusal names."""
    with pytest.raises(BadRequest) as caught:
        translate(target, **body)
    assert caught.value.param is not None
    assert caught.value.param in caught.value.message
    return caught.value.param


def translate_messages(*messages: Json) -> list[Json]:
    turns: list[Json] = translate(messages=list(messages))["messages"]
    return turns


def check_request(made: Json) -> None:
    """The SDK's types take it, and know every key of it (they drop the others)."""
    body = {key: value for key, value in made.items() if key != "stream"}
    assert _exhaust(_REQUEST_TYPE.validate_python(body)) == body


def _exhaust(value: Any) -> Any:
    """Pydantic reads iterables lazily: only reading them to the end validates what is in them."""
    if isinstance(value, dict):
        return {key: _exhaust(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_exhaust(item) for item in value]
    return value


def make_context(*, usage: bool = False, limits: int = 10**6, **body: Any) -> ReplyContext:
    context = make_chat_context(usage=usage, limits=limits)
    return replace(context, request=replace(context.request, body=body))


def open_stream(*, usage: bool = False, **body: Any) -> MessagesAsChat:
    return MessagesAsChat(make_context(usage=usage, **body), CREATED)


def frame(*events: Json) -> bytes:
    return b"".join(frame_line(json.dumps(event).encode(), event["type"]) for event in events)


def frame_line(line: bytes, name: str) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), line)


def load_lines(name: str) -> list[bytes]:
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    return [line for line in lines if line.strip()]


def load_frames(name: str) -> list[bytes]:
    """A recording's events as they came over the wire."""
    return [frame_line(line, json.loads(line)["type"]) for line in load_lines(name)]


@dataclass(slots=True)
class Told:
    """What a messages stream tells, by a reading of our own."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, str, Json]] = field(default_factory=list)
    """Id, name and input of each tool's block."""
    stop_reason: str | None = None
    usage: Json = field(default_factory=dict)

    @property
    def tokens(self) -> Tokens:
        return Tokens(
            self.usage["input_tokens"],
            self.usage.get("cache_read_input_tokens", 0),
            self.usage.get("cache_creation_input_tokens", 0),
            self.usage["output_tokens"],
        )


def read_told(events: Iterable[Json]) -> Told:
    told = Told()
    arguments = ""
    for event in events:
        match event:
            case {"type": "message_start", "message": {"usage": usage}}:
                told.usage |= usage
            case {"content_block": {"type": "tool_use", "id": identity, "name": name}}:
                told.calls.append((identity, name, {}))
                arguments = ""
            case {"delta": {"type": "text_delta", "text": text}}:
                told.text += text
            case {"delta": {"type": "thinking_delta", "thinking": thinking}}:
                told.thinking += thinking
            case {"delta": {"type": "input_json_delta", "partial_json": fragment}}:
                arguments += fragment
                told.calls[-1] = (*told.calls[-1][:2], _try_json(arguments))
            case {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}:
                told.stop_reason = reason
                told.usage |= usage
            case _:
                pass
    return told


def _try_json(text: str) -> Json:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}
