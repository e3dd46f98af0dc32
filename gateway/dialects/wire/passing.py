"""A stream between equal dialects: events pass except for edits, most of them by templates."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Final

from gateway.dialects.wire.jsonbytes import dumps_lenient, hide_bill, maybe_loads
from gateway.dialects.wire.pipelines import EventReader
from gateway.dialects.wire.records import Event, Json, ReplyContext
from gateway.dialects.wire.sse import Framer, is_canonical, parse_event, render_event
from gateway.dialects.wire.stream import MAX_FRUITLESS, PICTURE_BYTES, EventStream
from gateway.dialects.wire.templates import Template

_END_BYTES: Final = 4096
"""Bytes at the end of an oversized chunk that are searched for its usage and finish reason: both together
have some hundred."""


class PassingStream(EventStream):
    """The part of a passing `Pipeline` that does not depend on the content of events."""

    __slots__ = (
        "_begun", "_between_events", "_carried", "_last", "_may_pass_many", "_moves_usage",
        "_oversized_end", "_passed_bytes",
    )  # fmt: skip

    def __init__(self, context: ReplyContext, reader: EventReader, last: bytes = b"") -> None:
        super().__init__(context, reader, Framer())
        self._last = last
        """The terminal event."""
        self._begun = False
        self._between_events = False
        """The next byte begins an event."""
        self._may_pass_many = True
        """`pass_many` passed events, or was not tried yet in this read. It scans all remaining bytes, so
        after a failure it is not tried again for each event."""
        self._carried = False
        """Output other than text has passed, such as a tool's name."""
        self._moves_usage = False
        """The caller wants the usage in an event of its own, at the end."""
        self._passed_bytes = 0
        """The part of `_text_bytes` without oversized events."""
        self._oversized_end = b""

    @property
    def begun(self) -> bool:
        return self._begun or self._framer.oversized_events > 0

    @property
    def delivered(self) -> bool:
        return self._carried or self._text_bytes > 0

    @property
    def mid_event(self) -> bool:
        return self._framer.mid_event

    @property
    def _text_bytes(self) -> int:
        return self._passed_bytes + self._framer.oversized_events * PICTURE_BYTES

    def take_last(self) -> bytes:
        return self._last

    def feed(self, data: bytes) -> bytes:
        # A read is often one whole event. If that fits a template, no framer is needed.
        if self._between_events:
            for template in self._templates:
                passed = template.maybe_pass_whole(data)
                if passed is not None:
                    self._note_passed(template, passed[1])
                    return passed[0]
        self._may_pass_many = True
        out = super().feed(data)
        self._between_events = self._framer.is_between_events
        return out

    def _match(self, buffer: bytes, position: int) -> int:
        for template in self._templates:
            # This test is cheap; the next steps are not.
            if not buffer.startswith(template.head, position):
                continue
            after, many_bytes = position, 0
            if self._may_pass_many:
                after, many_bytes = template.pass_many(buffer, position, self._out)
                self._may_pass_many = after > position
            after, run_bytes = template.pass_run(buffer, after, self._out)
            if after > position:
                self._note_passed(template, many_bytes + run_bytes)
                return after
        return position

    def _note_passed(self, template: Template, text_bytes: int) -> None:
        self._may_learn = MAX_FRUITLESS
        self._passed_bytes += text_bytes
        if template.note is not None:
            template.note()

    def _pass_event(self, event: Event, block: bytes) -> None:
        body = self._reader.read_event(event)
        if body is None:
            return
        shown = hide_bill(body, block)
        if shown is not body or not self._is_canonical(event, block, body):
            body, block = shown, self._write_event(shown)
        self._out.append(self._edit_event(block, body))

    def _pass_oversized(self, piece: bytes, *, is_last: bool) -> None:
        """Pass a piece of an event; its last bytes wait, as they may contain the provider's bill."""
        waiting = self._oversized_end + piece
        self._oversized_end = b"" if is_last else waiting[-_END_BYTES:]
        self._out.append(waiting[:-_END_BYTES])
        if is_last:
            self._out.append(self._edit_end(waiting[-_END_BYTES:]))

    def _edit_end(self, end: bytes) -> bytes:
        """Return the end of an oversized event, which is never parsed: usage and finish reason stand there."""
        found = maybe_find_end_usage(end)
        self._reader.read_end(end, None if found is None else found[2])
        if found is None:
            return end
        begin, stop, usage = found
        shown = None if self._moves_usage else hide_bill({"usage": usage}, end)["usage"]
        return end if shown is usage else end[:begin] + dumps_lenient(shown) + end[stop:]

    def _close(self, missing: Sequence[Json]) -> None:
        self._out += map(self._write_event, missing)

    _write_event = staticmethod(render_event)

    def _is_canonical(self, event: Event, block: bytes, body: Json) -> bool:
        """Return whether a block can pass unchanged, as all SDKs can read it."""
        return is_canonical(block, event, body["type"])

    @abstractmethod
    def _edit_event(self, block: bytes, body: Json) -> bytes:
        """Return the output for one whole event that matches no template."""


def find_last_usage(text: bytes) -> Json | None:
    """Return the usage at the end of JSON, or of events, that cannot be parsed; None if there is none.

    Other bodies may contain anything: a usage there may be quoted from the model's text.
    """
    begins = text.startswith((b"{", b"[", *_FIELDS))
    found = maybe_find_end_usage(text[-_END_BYTES:]) if begins else None
    return None if found is None else {"usage": found[2]}


def read_outer_events(text: bytes) -> list[Json]:
    """Read the first and last events of a body that should be JSON: an error is among these."""
    if not text.startswith(_FIELDS):
        return []
    found: list[Json] = []
    ends = map(_BLANK_LINE.split, (text[:_END_BYTES], text[-_END_BYTES:]))
    for event in map(parse_event, chain.from_iterable(ends)):
        body = maybe_loads(event.data or b"")
        if type(body) is dict:
            is_error = event.name == "error" and not body.get("error")
            found.append({"error": body} if is_error else body)
    return found


def maybe_find_end_usage(end: bytes) -> tuple[int, int, Json] | None:
    """Find the usage in the last bytes of an event too large to keep: its position and its value."""
    # The last match counts: a text before it may contain a usage, too.
    for found in reversed([*_END_USAGE.finditer(end)]):
        # The event may be cut within a character, so invalid UTF-8 must be restored unchanged.
        text = end[found.end() - 1 :].decode("utf-8", "surrogateescape")
        try:
            # Not orjson, which refuses bytes after an object.
            usage, chars = _DECODER.raw_decode(text)
        except ValueError:
            continue
        size = len(text[:chars].encode("utf-8", "surrogateescape"))
        return found.end() - 1, found.end() - 1 + size, usage
    return None


_FIELDS: Final = (b"data:", b"event:", b"id:", b":")
_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_END_USAGE: Final = re.compile(rb'"usage"\s*:\s*\{')


_DECODER: Final = json.JSONDecoder()
