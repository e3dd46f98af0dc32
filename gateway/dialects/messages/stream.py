"""A messages stream between a messages upstream and a messages caller: bytes pass but for edits.

The stream edits `message.model` in message_start, and adds the `event:` line, which the SDKs need and
some imitations of the API leave out. `message_stop` is held back until the charge is committed.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.messages.reader import MessagesReader
from gateway.dialects.messages.usage import count_block_text, count_start_text, is_made
from gateway.dialects.records import Event, Json, ReplyContext
from gateway.dialects.wire.jsonbytes import maybe_replace
from gateway.dialects.wire.passing import PROBE, PROBE_BYTES, PassingStream, maybe_cut
from gateway.dialects.wire.sse import is_canonical, render_event
from gateway.dialects.wire.usage import hide_bill

TEXT_KEYS: Final = ("text", "thinking", "partial_json")
"""Keys of a delta that hold text."""


STOP: Final = render_event({"type": "message_stop"})


class MessagesStream(PassingStream):
    """A `Pipeline`: the upstream's events in, the same out."""

    __slots__ = ()

    _reader: MessagesReader

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, MessagesReader())

    def finish(self) -> bytes:
        return STOP

    def _add(self, event: Json, out: list[bytes]) -> None:
        out.append(render_event(event))

    def _edit_event(self, event: Event, block: bytes) -> bytes:
        body = self._reader.read_event(event)
        if body is None:
            return b""
        shown = hide_bill(body, block)
        if shown is not body or not is_canonical(block, event, body["type"]):
            body, block = shown, render_event(shown)
        match body:
            case {"type": "message_start", "message": dict(message)}:
                block = self._edit_start(block, body, message)
            case {"type": "content_block_start", "content_block": dict(started)}:
                self._passed_bytes += count_start_text(started)
                self._carried |= is_made(started)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._passed_bytes += count_block_text(delta)
                self._learn_from(block, body, delta)
            case {"type": "ping"}:
                return block
            case _:
                pass
        self._begun = True
        return block

    def _edit_start(self, block: bytes, body: Json, message: Json) -> bytes:
        """Name the caller's model."""
        model, ours = message.get("model"), self._context.request.model
        if not isinstance(model, str):
            return block
        wanted = {**body, "message": {**message, "model": ours}}
        return maybe_replace(block, "model", model, ours, wanted) or render_event(wanted)

    def _learn_from(self, block: bytes, body: Json, delta: Json) -> None:
        texts = [key for key in TEXT_KEYS if isinstance(delta.get(key), str) and delta[key]]
        if len(texts) != 1 or not self._may_learn:
            return
        self._may_learn -= 1
        key = texts[0]
        probed = {**body, "delta": {**delta, key: PROBE}}
        if cut := maybe_cut(block, probed, key, delta[key]):
            head, behind = cut
            self._learn(head, behind, head + PROBE_BYTES + behind)
