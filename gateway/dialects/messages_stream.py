"""One messages stream from a messages upstream to a messages caller: name, repair and meter. No I/O.

Bytes pass. Edited is `message.model` in message_start; given is the `event:` line that SDKs need
and some imitations leave out. `message_stop` is held back until the charge is committed. The
endings are those of `chat_stream`.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import ReplyContext
from gateway.dialects.from_messages_ending import is_error, make_failure, measure_reply
from gateway.dialects.jsonbytes import dumps_lenient, loads_lenient, maybe_replace
from gateway.dialects.passing import PassingStream
from gateway.dialects.template import PROBE, PROBE_BYTES, maybe_cut
from gateway.errors import UpstreamError
from gateway.money import Tokens
from gateway.sse import Event, parse_event

STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
TEXT_KEYS: Final = ("text", "thinking", "partial_json")
"""Of deltas: what is delivered, and what a template's hole may be."""

Json = dict[str, Any]


class MessagesStream(PassingStream):
    """A `Pipeline`: the upstream's events in, the same out."""

    __slots__ = ("_counted", "_stop_reason", "_usage")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._usage: Json | None = None
        self._counted = False
        """Whether a message_delta counted the output: message_start only begins to."""
        self._stop_reason: object = None

    @property
    def finished(self) -> bool:
        return self.complete or self._stop_reason is not None

    def finish(self) -> bytes:
        return STOP

    def measure(self) -> tuple[Tokens, bool]:
        counted = self.complete and self._counted
        return measure_reply(self._usage, self._delivered_bytes, self._context, complete=counted)

    def _lacks_nothing(self) -> bool:
        return self._stop_reason is not None

    def _pass_block(self, block: bytes) -> bytes:
        """One whole event that fits no template."""
        event = parse_event(block)
        comments = b"".join(comment + b"\n\n" for comment in event.comments)
        if event.data is None or event.data.strip() == b"[DONE]":
            return comments
        try:
            body = loads_lenient(event.data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.failure = UpstreamError("The upstream sent a stream event that is not JSON.")
        elif event.name == "error" or is_error(body):
            self.failure = make_failure(body)
        else:
            return comments + self._pass_event(block, event, body)
        return comments

    def _pass_event(self, block: bytes, event: Event, body: Json) -> bytes:
        kind = body.get("type") or event.name
        if kind == "message_stop":
            self.complete = self.begun
            if not self.begun:
                self.failure = UpstreamError("The upstream's stream ended before it began.")
            return b""
        if not _is_canonical(block, event, kind):
            block = b"event: %b\ndata: %b\n\n" % (str(kind).encode(), dumps_lenient(body))
        if kind == "message_start":
            block = self._name_model(block, body)
        elif kind == "content_block_delta":
            self._read_delta(block, body)
        elif kind == "message_delta":
            delta = body.get("delta")
            reason = delta.get("stop_reason") if isinstance(delta, dict) else None
            self._stop_reason = reason or self._stop_reason
            self._counted |= self._note_usage(body.get("usage"))
        self._begun = self._begun or kind != "ping"
        return block

    def _name_model(self, block: bytes, body: Json) -> bytes:
        message = body.get("message")
        if not isinstance(message, dict):
            return block
        self._note_usage(message.get("usage"))
        model = message.get("model")
        if not isinstance(model, str):
            return block
        wanted = {**body, "message": {**message, "model": self._context.request.model}}
        edited = maybe_replace(block, "model", model, self._context.request.model, wanted)
        return edited or b"event: message_start\ndata: %b\n\n" % dumps_lenient(wanted)

    def _read_delta(self, block: bytes, body: Json) -> None:
        delta = body.get("delta")
        if not isinstance(delta, dict):
            return
        texts = [key for key in TEXT_KEYS if isinstance(delta.get(key), str) and delta[key]]
        self._text_bytes += sum(len(delta[key].encode("utf-8", "surrogatepass")) for key in texts)
        if len(texts) == 1 and self._lessons:
            self._lessons -= 1
            key = texts[0]
            probed = {**body, "delta": {**delta, key: PROBE}}
            if cut := maybe_cut(block, probed, key, delta[key]):
                head, behind = cut
                self._learn(head, behind, head + PROBE_BYTES + behind)

    def _note_usage(self, usage: object) -> bool:
        """Counts are cumulative: a later one overwrites, an absent one stays (wire.md §4.3).

        Whether the output was counted.
        """
        if not isinstance(usage, dict):
            return False
        told = {key: value for key, value in usage.items() if value is not None}
        self._usage = {**(self._usage or {}), **told}
        return "output_tokens" in told


def _is_canonical(block: bytes, event: Event, kind: object) -> bool:
    """Exactly an `event:` line and a `data:` line: what SDKs need, and nothing they stumble on."""
    lines = [line for line in block.splitlines() if line]
    return (
        len(lines) == 2  # noqa: PLR2004 - the two lines
        and event.name == kind
        and lines[0].startswith(b"event:")
        and lines[1].startswith(b"data:")
    )
