"""Upstreams of the tiny dialect: requests, replies, events, and the stream that passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects.base import Pipeline
from gateway.dialects.records import Event, Reasoning, ReplyContext, Target
from gateway.dialects.wire.jsonbytes import dumps_lenient, maybe_loads
from gateway.dialects.wire.passing import PROBE, PROBE_BYTES, PassingStream, maybe_cut
from gateway.dialects.wire.stream import read_object
from gateway.errors import UpstreamError
from gateway.money import Tokens
from gateway.usage import Expected, Reported, count_text, read_count

Json = dict[str, Any]


def render(event: Json) -> bytes:
    return b"data: " + dumps_lenient(event) + b"\n\n"


BYE = render({"bye": True})


def read_tiny_usage(usage: Json | None) -> Reported:
    given, made = (read_count((usage or {}).get(key)) for key in ("in", "out"))
    tokens = Tokens(input=given or 0, output=made or 0)
    return Reported(tokens, has_input=given is not None, has_output=made is not None)


def check_oops(body: Json) -> Json:
    if "oops" in body:
        raise UpstreamError(str(body["oops"]))
    return body


class TinyReader:
    """A `Reader`."""

    counted = True
    keeps_comments = True

    def __init__(self) -> None:
        self.usage: Json | None = None
        self.begun = self.finished = self.ended = False

    def read(self, event: Event) -> list[Json]:
        if event.data is None:
            return []
        body = check_oops(read_object(event))
        self.begun |= "by" in body or "w" in body
        self.finished |= "end" in body
        self.ended |= "bye" in body
        self.usage = body.get("used") or self.usage
        return [body]

    def is_end(self, rest: bytes) -> bool:  # noqa: ARG002 - the protocol's
        return False

    def close(self) -> list[Json]:
        return []

    def read_report(self, expected: Expected) -> Reported:  # noqa: ARG002 - the protocol's
        return read_tiny_usage(self.usage)


class TinyStream(PassingStream):
    """Passes bytes, but replaces the model's name and matches words by templates."""

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, TinyReader())

    def finish(self) -> bytes:
        return BYE

    def _add(self, event: Json, out: list[bytes]) -> None:
        out.append(render(event))

    def _edit_event(self, event: Event, block: bytes) -> bytes:
        for body in self._reader.read(event):
            if "bye" in body:
                return b""
            self._begun = True
            if "by" in body:
                return render({**body, "by": self._context.request.model})
            words = body.get("w", "")
            self._passed_bytes += count_text(words)
            if words and self._may_learn and (cut := maybe_cut(block, {"w": PROBE}, "w", words)):
                self._may_learn -= 1
                self._learn(*cut, PROBE_BYTES.join(cut))
            return block
        return b""


class TinyUpstream:
    """An `Upstream`."""

    name = "tiny"
    path = "/tiny"
    models_path = "/models"
    default_reasoning: Reasoning = "none"
    passed_headers = ("x-tiny-trace",)

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        return {"x-tiny-key": api_key} if api_key else {}

    def ask(self, body: Json, target: Target) -> Json:
        return {**body, "to": target.upstream_model}

    def read_reply(self, text: bytes) -> Json:
        reply = maybe_loads(text)
        if not isinstance(reply, dict) or "words" not in check_oops(reply):
            raise UpstreamError("The upstream's reply is not tiny.")
        return reply

    def find_usage(self, reply: Json) -> Json | None:
        return reply.get("used")

    def read_report(self, reply: Json, expected: Expected) -> Reported:  # noqa: ARG002 - the protocol's
        return read_tiny_usage(reply.get("used"))

    def is_whole(self, reply: Json) -> bool:
        return "end" in reply

    def count_text(self, reply: Json) -> int:
        return count_text(reply["words"])

    def has_content(self, reply: Json) -> bool:
        return bool(reply["words"])

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:  # noqa: ARG002 - the protocol's
        return dumps_lenient({**reply, "by": context.request.model})

    def replay_reply(self, reply: Json) -> bytes:
        end: Json = {key: reply[key] for key in ("end", "used") if key in reply}
        events: list[Json] = [{"by": reply["by"]}, {"w": reply["words"]}, end]
        return b"".join(map(render, events)) + BYE

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return TinyStream(context)

    def open_reader(self, context: ReplyContext) -> TinyReader:  # noqa: ARG002 - the protocol's
        return TinyReader()
