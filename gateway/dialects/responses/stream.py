"""A Responses stream between a Responses upstream and a Responses caller: bytes pass but for edits.

The stream edits `response.model` in the events that have a response, tags sealed content, and adds
what is missing: the `event:` line, and the items of the terminal event, whose `output` some upstreams
leave empty and SDKs take for the reply. That event is held back until the charge is committed.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.records import Event, Json, ReplyContext
from gateway.dialects.responses.reader import ResponsesReader
from gateway.dialects.responses.sealed import tag_sealed
from gateway.dialects.responses.usage import count_item_text, is_made
from gateway.dialects.wire.jsonbytes import dumps_lenient, maybe_replace
from gateway.dialects.wire.numbered import NumberedTemplate, maybe_learn_numbered
from gateway.dialects.wire.passing import PassingStream
from gateway.dialects.wire.sse import Framer, is_canonical, render_event
from gateway.dialects.wire.stream import MAX_TRANSLATED_EVENT_BYTES
from gateway.dialects.wire.usage import hide_bill
from gateway.usage import count_text

_DELTA: Final = ".delta"
_KEEP_ALIVE: Final = "keepalive"


class ResponsesStream(PassingStream):
    """A `Pipeline`: the upstream's events in, the same out."""

    __slots__ = ("_done", "_done_bytes", "_held_bytes", "_last", "_number", "_response")

    _reader: ResponsesReader

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, ResponsesReader())
        self._framer = Framer(MAX_TRANSLATED_EVENT_BYTES)  # responses repeat instructions and tools
        self._done: dict[int, Json] = {}
        """The items that are done, by index, as long as an event can hold them."""
        self._held_bytes = 0
        """The length of their events."""
        self._done_bytes = 0
        """UTF-8 bytes of the items that are done: some imitations send no deltas."""
        self._last = b""
        self._number = -1
        """The `sequence_number` of the last event that passed by no template."""
        self._response: Json | None = None

    @property
    def position(self) -> Json | None:
        if self._response is None:
            return None
        numbers = (one.read_number() for one in self._templates if type(one) is NumberedTemplate)
        number = max(self._number, *numbers, -1)
        response = self._response
        if (usage := self._reader.usage) is not None:
            response = hide_bill({**response, "usage": usage}, dumps_lenient(usage))
        return {"response": response, "sequence_number": number + 1}

    def finish(self) -> bytes:
        return self._last

    def _add(self, event: Json, out: list[bytes]) -> None:
        out.append(render_event(event))

    def _read_end(self, end: bytes, usage: Json | None) -> None:  # noqa: ARG002 - chat's needs it
        self._reader.read_end(usage)

    def _edit_event(self, event: Event, block: bytes) -> bytes:
        body = self._reader.read_event(event)
        if body is None:
            return b""
        kind, shown = body["type"], hide_bill(body, block)
        if shown is not body or not is_canonical(block, event, kind):
            body, block = shown, render_event(shown)
        if kind == _KEEP_ALIVE:
            return block
        self._begun = True
        if kind.endswith(_DELTA):
            self._note_delta(block, body)
        elif type(response := body.get("response")) is dict:
            block = self._edit_response(block, body, response)
        elif type(item := body.get("item")) is dict:
            self._note_item(block, body, item)
        block = tag_sealed(block, self._context.provider_tag)
        if self._reader.ended:
            self._last = block
            return b""
        number = body.get("sequence_number")
        if type(number) is int:
            self._number = number
        return block

    def _note_delta(self, block: bytes, body: Json) -> None:
        text = body.get("delta")
        self._passed_bytes += count_text(text)
        if self._may_learn and type(text) is str:
            self._may_learn -= 1
            self._keep(maybe_learn_numbered(block, body))

    def _note_item(self, block: bytes, body: Json, item: Json) -> None:
        self._carried |= is_made(item)
        if body["type"] != "response.output_item.done":
            return
        self._done_bytes += count_item_text(item)
        self._passed_bytes = max(self._passed_bytes, self._done_bytes)
        self._held_bytes += len(block)
        if self._held_bytes > MAX_TRANSLATED_EVENT_BYTES:
            self._done.clear()
        elif type(index := body.get("output_index")) is int:
            self._done[index] = item

    def _edit_response(self, block: bytes, body: Json, response: Json) -> bytes:
        model, ours = response.get("model"), self._context.request.model
        self._response = edited = {**response, "model": ours}
        wanted = {**body, "response": edited}
        if self._reader.ended and self._done and not response.get("output"):
            edited["output"] = [self._done[index] for index in sorted(self._done)]
            return render_event(wanted)
        if type(model) is not str:
            return render_event(wanted)
        return maybe_replace(block, "model", model, ours, wanted) or render_event(wanted)
