"""Chat callers over messages upstreams. The SDKs' own types check the results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from pydantic import TypeAdapter

from gateway.dialects.base import Pipeline
from gateway.dialects.exchanges import CALLERS, EXCHANGES, TRANSLATIONS
from gateway.dialects.records import CompletionRequest, ReplyContext, Target
from gateway.errors import BadRequest
from tests.dialects.chat.kit import Played, play
from tests.dialects.chat.kit import make_context as make_chat_context

Json = dict[str, Any]
CREATED: Final = 1_700_000_000
TARGET: Final = Target("their-model", max_output_tokens=5000)
EXCHANGE: Final = EXCHANGES["chat"]["messages"]
TRANSLATION: Final = TRANSLATIONS["chat", "messages"]
_REQUEST_TYPE: Final = TypeAdapter[Any](MessageCreateParamsNonStreaming)


def read_request(**body: Any) -> CompletionRequest:
    """Read a request with the gateway's own validation."""
    whole = {"model": "our/model", "messages": [{"role": "user", "content": "Hi"}], **body}
    return CALLERS["chat"].parse_request(json.dumps(whole).encode())


def translate(target: Target = TARGET, **body: Any) -> Json:
    made: Json = json.loads(EXCHANGE.write_request(read_request(**body), target).data)
    return made


def find_refusal(target: Target = TARGET, **body: Any) -> str | None:
    """Return the field that a refusal names."""
    with pytest.raises(BadRequest) as caught:
        translate(target, **body)
    assert caught.value.param is not None
    assert caught.value.param in caught.value.message
    return caught.value.param


def translate_messages(*messages: Json) -> list[Json]:
    turns: list[Json] = translate(messages=list(messages))["messages"]
    return turns


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def tool(identity: str, content: Any) -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def check_request(made: Json) -> None:
    """Check that the SDK's types accept it and know each of its keys (they drop the others)."""
    body = {key: value for key, value in made.items() if key != "stream"}
    assert exhaust(_REQUEST_TYPE.validate_python(body)) == body


def exhaust(value: Any) -> Any:
    """Read iterables to their end, as Pydantic validates their content only then."""
    if isinstance(value, dict):
        return {key: exhaust(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [exhaust(item) for item in value]
    return value


def make_context(*, usage: bool = False, limits: int = 10**6, **body: Any) -> ReplyContext:
    context = make_chat_context(usage=usage, limits=limits)
    request = replace(context.request, body=body)
    return replace(context, request=request, created=CREATED)


def open_stream(*, usage: bool = False, **body: Any) -> Pipeline:
    return EXCHANGE.open_stream(make_context(usage=usage, **body))


def frame(*events: Json) -> bytes:
    return b"".join(frame_line(json.dumps(event).encode(), event["type"]) for event in events)


def frame_line(line: bytes, name: str) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), line)


PING: Final = {"type": "ping"}
STOP: Final = {"type": "message_stop"}


def start(**usage: Any) -> Json:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    return {"type": "message_start", "message": {**message, "usage": usage}}


def open_block(index: int, kind: str = "text", **fields: Any) -> Json:
    block = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def open_tool(index: int, identity: str = "t1", name: str = "f", **arguments: Any) -> Json:
    return open_block(index, "tool_use", id=identity, name=name, input=arguments)


def delta(index: int, kind: str, **fields: Any) -> Json:
    held = {"type": f"{kind}_delta", **fields}
    return {"type": "content_block_delta", "index": index, "delta": held}


def say(text: str, index: int = 0) -> Json:
    return delta(index, "text", text=text)


def argue(fragment: str, index: int) -> Json:
    return delta(index, "input_json", partial_json=fragment)


def close(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None = "end_turn", details: Json | None = None, **usage: Any) -> Json:
    held = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    return {"type": "message_delta", "delta": held, "usage": usage}


def play_events(*events: Json, usage: bool = False, **body: Any) -> Played:
    return play(open_stream(usage=usage, **body), [frame(*events)])


def told(played: Played) -> list[Any]:
    """Return the deltas; for the last chunk of a choice, the finish reason."""
    return [choice["finish_reason"] or choice["delta"] for choice in played.choices]


ROLE: Final = {"role": "assistant", "content": "", "refusal": None}
BEGUN: Final = (start(input_tokens=10, output_tokens=1), open_block(0, text=""))
ENDED: Final = (close(), finish(output_tokens=2), STOP)
