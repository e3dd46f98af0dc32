"""A toy dialect: caller, reader, stream, upstream, and translations from chat and to it.

Its wire format:

    request   {"to": MODEL, "lines": [["me", "Hi"], ["you", "Hello"], ...], "flow": true, "most": 9}
    reply     {"by": MODEL, "words": "Hello", "end": "done", "used": {"in": 5, "out": 2}}
    stream    {"by": MODEL}  {"w": "Hel"}  {"w": "lo"}  {"end": "done", "used": {...}}  {"bye": true}
    error     {"oops": "said upstream"}, also in a stream

The speakers are `rule`, `me` and `you`; the end is `done` or `cut`. An event is one line `data: `.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.base.errors import GatewayError, UpstreamError
from gateway.base.money import Tokens
from gateway.base.usage import Expected, Reported, count_text, read_count
from gateway.dialects.chat.writer import ChoiceWriter, make_completion, make_message
from gateway.dialects.exchanges import Translation
from gateway.dialects.formats import Formats
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller, EventUpstream, ListedModel, RateLimit
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.dialects.wire.passing import PassingStream
from gateway.dialects.wire.pipelines import EventReader, EventWriter, Pipeline
from gateway.dialects.wire.records import (
    CompletionRequest,
    Event,
    Query,
    ReplyContext,
    ReplyUsage,
    Target,
)
from gateway.dialects.wire.sse import render_data
from gateway.dialects.wire.templates import PROBE
from gateway.dialects.wire.usage import make_chat_usage

Json = dict[str, Any]

BYE = render_data({"bye": True})
ROLES = {"rule": "system", "me": "user", "you": "assistant"}
SPEAKERS = {"system": "rule", "developer": "rule", "user": "me", "assistant": "you"}
KNOWN = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens"}


class TinyCaller(Caller):
    """Callers of the tiny dialect."""

    name = "tiny"
    path = "/tiny"
    marker = "x-tiny"

    def parse_request(self, data: bytes) -> CompletionRequest:
        checks = {"to": fields.check_string, "lines": fields.check_array}
        body = fields.read_body(data, fields.Fields(checks), required=checks)
        flow = body.get("flow") is True
        return CompletionRequest(body, body["to"], flow, True, max_tokens=body.get("most"))

    def render_error(self, error: GatewayError, request_id: str) -> bytes:
        return json.dumps({"oops": error.message, "request": request_id}).encode()

    def limit_headers(self, limits: Sequence[RateLimit], now_ms: int) -> dict[str, str]:  # noqa: ARG002 - without a time
        return {f"left-{one.name}": str(one.remaining) for one in limits}

    def list_models(self, models: Sequence[ListedModel], query: Query) -> Json:  # noqa: ARG002 - no pages
        return {"all": [self.show_model(model) for model in models]}

    def show_model(self, model: ListedModel) -> Json:
        return {"to": model.id}


def read_used(usage: Json | None) -> Reported:
    given, made = (read_count((usage or {}).get(key)) for key in ("in", "out"))
    tokens = Tokens(input=given or 0, output=made or 0)
    return Reported(tokens, has_input=given is not None, has_output=made is not None)


def write_used(usage: ReplyUsage) -> Json:
    tokens = usage.tokens
    return {"in": tokens.total - tokens.output, "out": tokens.output}


def check_oops(body: Json) -> Json:
    if "oops" in body:
        raise UpstreamError(str(body["oops"]))
    return body


class TinyReader(EventReader):
    """Reads tiny events."""

    begun = finished = False

    def _read_object(self, body: Json, name: str) -> Json | None:  # noqa: ARG002 - events have none
        check_oops(body)
        self.begun |= "by" in body or "w" in body
        self.finished |= "end" in body
        self.ended |= "bye" in body
        self.usage = body.get("used") or self.usage
        return None if self.ended else body

    def read_report(self, expected: Expected) -> Reported:  # noqa: ARG002 - nothing is left out
        return read_used(self.usage)


class TinyStream(PassingStream):
    """Passes bytes, but replaces the model's name and matches words by templates."""

    _write_event = staticmethod(render_data)

    def _is_canonical(self, event: Event, block: bytes, body: Json) -> bool:  # noqa: ARG002 - no names
        return event.canonical

    def _edit_event(self, block: bytes, body: Json) -> bytes:
        self._begun = True
        if "by" in body:
            return render_data({**body, "by": self._context.request.model})
        if words := body.get("w"):
            self._passed_bytes += count_text(words)
            self._learn_text(block, ({"w": PROBE}, "w", words))
        return block


class TinyUpstream(EventUpstream):
    """Providers of the tiny dialect."""

    name = "tiny"
    path = "/tiny"
    reply_name = "tiny"
    passed_headers = ("x-tiny-trace",)

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        return {"x-tiny-key": api_key} if api_key else {}

    def ask(self, body: Json, target: Target) -> Json:
        return {**body, "to": target.upstream_model}

    def check_error(self, reply: Json, /) -> None:
        check_oops(reply)

    def check_reply(self, reply: Json) -> bool:
        return "words" in reply

    def find_usage(self, reply: Json) -> Json | None:
        return reply.get("used")

    def read_report(self, reply: Json, expected: Expected) -> Reported:  # noqa: ARG002 - nothing is left out
        return read_used(reply.get("used"))

    def is_whole(self, reply: Json) -> bool:
        return "end" in reply

    def count_text(self, reply: Json) -> int:
        return count_text(reply["words"])

    def has_content(self, reply: Json) -> bool:
        return bool(reply["words"])

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:  # noqa: ARG002 - written anew
        return dumps_lenient({**reply, "by": context.request.model})

    def replay_reply(self, text: bytes, reply: Json) -> bytes:  # noqa: ARG002 - it is written anew
        end: Json = {key: reply[key] for key in ("end", "used") if key in reply}
        events: list[Json] = [{"by": reply["by"]}, {"w": reply["words"]}, end]
        return b"".join(map(render_data, events)) + BYE

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return TinyStream(context, TinyReader(), BYE)

    def open_reader(self, context: ReplyContext) -> TinyReader:  # noqa: ARG002 - chat's needs it
        return TinyReader()


def ask_chat(request: CompletionRequest, target: Target) -> Json:
    """Translate the request of a tiny caller for a chat upstream."""
    lines = request.body["lines"]
    messages = [{"role": ROLES[speaker], "content": words} for speaker, words in lines]
    body: Json = {"model": request.model, "messages": messages, "stream": request.stream}
    if request.max_tokens is not None:
        body[target.max_tokens_field] = request.max_tokens
    return body


def tell_tiny(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
    """Translate the reply of a chat upstream for a tiny caller."""
    choice = reply["choices"][0]
    return {
        "by": context.request.model,
        "words": choice["message"]["content"] or "",
        "end": "cut" if choice["finish_reason"] == "length" else "done",
        "used": write_used(usage),
    }


class TinyWriter(EventWriter):
    """Writes tiny events from chat chunks."""

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self._model = context.request.model
        self._end = "done"

    def open(self, usage: ReplyUsage) -> None:  # noqa: ARG002 - told at the end
        self.out.append(render_data({"by": self._model}))

    def write(self, event: Json) -> None:
        for choice in event["choices"]:
            if choice["finish_reason"] == "length":
                self._end = "cut"
            if words := choice["delta"].get("content"):
                self.text_bytes += count_text(words)
                self.out.append(render_data({"w": words}))

    def close(self, usage: ReplyUsage) -> None:
        self.out.append(render_data({"end": self._end, "used": write_used(usage)}))

    def take_last(self) -> bytes:
        return BYE


def ask_tiny(request: CompletionRequest, target: Target) -> Json:  # noqa: ARG001 - any will do
    """Translate the request of a chat caller for a tiny upstream."""
    body = fields.Field(request.body)
    body.check_fields(KNOWN, {})
    lines = [
        [SPEAKERS[message.get("role")], message["content"].read_string()]
        for message in body["messages"].read_items()
    ]
    asked: Json = {"to": request.model, "lines": lines, "flow": request.stream}
    return asked if request.max_tokens is None else {**asked, "most": request.max_tokens}


def tell_chat(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
    """Translate the reply of a tiny upstream for a chat caller."""
    message = make_message(reply["words"], None, "", [], functions=False)
    finish = "length" if reply["end"] == "cut" else "stop"
    return make_completion(message, finish, context, make_chat_usage(usage.tokens))


class ChatWriter(ChoiceWriter):
    """Writes chat chunks from tiny events."""

    _finish = "stop"

    def write(self, event: Json) -> None:
        if event.get("end") == "cut":
            self._finish = "length"
        self._write_text("content", event.get("w"))

    def close(self, usage: ReplyUsage) -> None:
        self._write_end(self._finish, make_chat_usage(usage.tokens))


FORMATS = Formats(
    callers={"tiny": TinyCaller()},
    upstreams={"tiny": TinyUpstream()},
    translations={
        ("tiny", "chat"): Translation(ask_chat, tell_tiny, TinyWriter),
        ("chat", "tiny"): Translation(ask_tiny, tell_chat, ChatWriter),
    },
)
