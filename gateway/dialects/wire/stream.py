"""The part that all streams share (whole events, endings, metering), and translated streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from gateway.base.errors import GatewayError, UndeliverableReply, UpstreamError
from gateway.base.usage import BYTES_PER_TOKEN, TOKENS_PER_PICTURE, Metered, meter
from gateway.dialects.wire import sse
from gateway.dialects.wire.jsonbytes import maybe_loads
from gateway.dialects.wire.pipelines import EventReader, EventWriter
from gateway.dialects.wire.records import Event, Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.templates import PROBE_BYTES, Template, maybe_cut, maybe_learn
from gateway.dialects.wire.usage import tells_work

MAX_TRANSLATED_EVENT_BYTES: Final = 8 << 20
"""Bytes of an event to translate, which has to be whole: no upstream writes one this long."""
MAX_IDLE_BYTES: Final = 1 << 20
"""Bytes of comments, pings and events without data in a row, after which a stream is cut: as many as ten
comments a second for an hour."""
MAX_IDLE_PASSED: Final = 64
"""Comments and pings of such a row that are passed on: the gateway sends keep-alives itself."""
MAX_FRUITLESS: Final = 8
"""Templates learned in a row without a match, after which learning stops: the events differ too much."""
PICTURE_BYTES: Final = TOKENS_PER_PICTURE * BYTES_PER_TOKEN
"""UTF-8 bytes that count for a picture, a recording or an event too large to read."""


class EventStream(ABC):
    """The part of a `Pipeline` that does not depend on how events are written."""

    __slots__ = (
        "_context", "_framer", "_idle_bytes", "_idle_left", "_reader", "_templates", "complete",
        "failure",
    )  # fmt: skip

    buffered_elements: Final = 0
    _match: Callable[[bytes, int, list[bytes]], int]
    """Passes events that match `_templates`; returns the index after them, or the same index if none does."""

    def __init__(self, context: ReplyContext, reader: EventReader, framer: sse.Framer) -> None:
        self.complete = False
        self.failure: GatewayError | None = None
        self._context = context
        self._framer = framer
        self._reader = reader
        self._templates: list[Template] = []
        """A translated stream has at most one: how its next text is written depends on the event before."""
        self._idle_bytes = 0
        """Bytes of comments, pings and events without data since the last other event."""
        self._idle_left = MAX_IDLE_PASSED
        """How many more comments and pings of this row are passed on."""

    @property
    def buffered_bytes(self) -> int:
        return self._framer.carry.size

    @property
    def finished(self) -> bool:
        return self.complete or self._reader.finished

    @property
    def position(self) -> Json | None:
        return None

    @property
    @abstractmethod
    def delivered(self) -> bool:
        """See `Pipeline`."""

    @property
    @abstractmethod
    def _text_bytes(self) -> int:
        """UTF-8 bytes of text, reasoning and arguments in the events so far."""

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        try:
            is_passing = self._framer.mid_event
            passed, buffer = self._framer.push(data)
            # Called even without bytes: the event may have ended while its last bytes wait.
            if passed or is_passing:
                out.append(self._pass_oversized(passed))
            position = self._scan(buffer, out)
            if position < len(buffer) and not self.complete and self.failure is None:
                passed = self._framer.keep(buffer[position:])
                if passed:
                    out.append(self._pass_oversized(passed))
        # The error is kept, not raised, so that earlier events still go to the caller.
        except GatewayError as error:
            self.failure = error
        return b"".join(out)

    def end(self) -> bytes:
        out: list[bytes] = []
        last = self._framer.take_last()
        if last and not self.complete and self.failure is None:
            self._take_block(last, out)
        if not self.complete and self.failure is None and not self._framer.mid_event:
            reader = self._reader
            # Some providers omit the terminal event; a clean end after all finish reasons replaces it.
            if reader.begun and reader.finished:
                self._end(out)
        return b"".join(out)

    def measure(self) -> Metered:
        expected, reader = self._context.expected, self._reader
        return meter(
            reader.read_report(expected),
            self._text_bytes,
            expected,
            complete=self.complete,
            counted=reader.counted,
            delivered=self.delivered,
        )

    def _scan(self, buffer: bytes, out: list[bytes]) -> int:
        """Pass the whole events of `buffer`; return the index of the first byte not used."""
        position, size = 0, len(buffer)
        while position < size:
            # Templates come first, as nearly all events of a long stream match one.
            if self._templates and (matched := self._match(buffer, position, out)) > position:
                position = matched
                self._idle_bytes, self._idle_left = 0, MAX_IDLE_PASSED
                continue
            if buffer.startswith(sse.IDLE_BEGINNINGS, position):
                idle_end = self._pass_idle(buffer, position, out)
                if idle_end > position:
                    position = idle_end
                    if self.complete or self.failure is not None:
                        break
                    continue
            end = sse.find_event_end(buffer, position)
            if end < 0:
                if self._reader.is_end(buffer[position:]):
                    self._end(out)
                break
            self._take_block(buffer[position:end], out)
            position = end
            self._idle_bytes, self._idle_left = 0, MAX_IDLE_PASSED
            # Nothing after the end is read or passed, since the charge is measured at the end.
            if self.complete or self.failure is not None:
                break
        return position

    def _pass_idle(self, buffer: bytes, position: int, out: list[bytes]) -> int:
        """Pass the first comments or pings, drop the others; return the index after them all."""
        at = end = position
        if idle := sse.IDLE.match(buffer, position):
            end = idle.end()
            found = islice(sse.COMMENT.finditer(idle[0]), self._idle_left)
            if comments := [one[0] for one in found]:
                self._idle_left -= len(comments)
                self._pass_comments(comments, out)
        elif pings := sse.PINGS.match(buffer, position):
            end = pings.end()
            while at < end and self._idle_left and self.failure is None:
                self._idle_left -= 1
                ping_end = sse.find_event_end(buffer, at)
                self._take_block(buffer[at:ping_end], out)
                at = ping_end
        self._idle_bytes += end - position
        if self._idle_bytes > MAX_IDLE_BYTES and self.failure is None:
            self.failure = UpstreamError("The upstream provider's stream has comments alone.")
        return end

    def _take_block(self, block: bytes, out: list[bytes]) -> None:
        try:
            self._pass_event(sse.parse_event(block), block, out)
        except GatewayError as error:
            self.failure = error
        else:
            if self._reader.ended:
                self._end(out)

    def _end(self, out: list[bytes]) -> None:
        """End the stream after the terminal event, or after a clean end that replaces it."""
        reader, oversized = self._reader, self._framer.oversized_events
        # A terminal event without output before it (roles do not count) ends nothing, and nobody pays.
        made = self.delivered or reader.finished or reader.usage is not None
        if not made or not (reader.begun or oversized):
            # The provider reports usage, so it worked and will bill: the caller pays.
            kind = UndeliverableReply if tells_work(reader.usage) else UpstreamError
            self.failure = kind("The upstream's stream ended before it began.")
            return
        try:
            for event in reader.close():
                self._add(event, out)
            self._close()
        except GatewayError as error:
            self.complete, self.failure = False, error

    def _close(self) -> None:
        self.complete = True

    def _pass_comments(self, comments: Sequence[bytes], out: list[bytes]) -> None:
        out += (comment + b"\n\n" for comment in comments)

    @abstractmethod
    def _add(self, event: Json, out: list[bytes]) -> None:
        """Add to `out` the output for an event that the upstream left out."""

    @abstractmethod
    def _pass_event(self, event: Event, block: bytes, out: list[bytes]) -> None:
        """Read one whole event and add its output to `out`. Raises UpstreamError."""

    @abstractmethod
    def _pass_oversized(self, piece: bytes) -> bytes:
        """Return the output for a piece of an event that is too large to keep."""


class TranslatedStream(EventStream):
    """A `Pipeline` from one dialect to another: it reads with a reader and writes with a writer."""

    __slots__ = ("_extend", "_may_learn", "_owed", "_writer", "begun")

    _extend: Callable[[str], None]
    """Writes a text that `_templates` has read."""

    mid_event: Final = False

    def __init__(self, context: ReplyContext, reader: EventReader, writer: EventWriter) -> None:
        super().__init__(context, reader, sse.Framer(MAX_TRANSLATED_EVENT_BYTES))
        self._writer = writer
        self._may_learn = MAX_FRUITLESS
        self._owed: UndeliverableReply | None = None
        """The error that will end the caller's stream. Meanwhile the rest is read only for its usage."""
        self.begun = False

    @property
    def delivered(self) -> bool:
        return self._writer.delivered

    @property
    def position(self) -> Json | None:
        position = self._writer.position
        if position is None or not self.delivered:
            return position
        metered = self.measure()
        usage = ReplyUsage(metered.tokens, metered.estimated, self._reader.usage)
        return {**position, "usage": usage}

    @property
    def _text_bytes(self) -> int:
        return self._writer.text_bytes + self._framer.oversized_events * PICTURE_BYTES

    def feed(self, data: bytes) -> bytes:
        return super().feed(data) + self._writer.take()

    def end(self) -> bytes:
        out = super().end() + self._writer.take()
        self.failure = self.failure or self._owed
        return out

    def take_last(self) -> bytes:
        return self._writer.take_last()

    def _pass_comments(self, comments: Sequence[bytes], out: list[bytes]) -> None:
        if self._reader.keeps_comments:
            out.append(self._writer.take())
            super()._pass_comments(comments, out)

    def _match(self, buffer: bytes, position: int, out: list[bytes]) -> int:  # noqa: ARG002
        """Write the texts of events like the last one."""
        position, texts = self._templates[0].read_run(buffer, position)
        try:
            for text in texts:
                self._extend(text)
        except UndeliverableReply as error:
            self._owed = error
            self._templates.clear()
        if texts:
            self._may_learn = MAX_FRUITLESS
        return position

    def _learn(self, block: bytes, body: Json) -> None:
        """Make the template of an event, if it brought only a text."""
        if (probe := self._reader.maybe_probe(body)) is None:
            return
        probed, key, text = probe
        extend, cut = self._writer.maybe_extend(probed, key), maybe_cut(block, probed, key, text)
        if extend is not None and cut is not None:
            self._may_learn -= 1
            if template := maybe_learn(*cut, PROBE_BYTES.join(cut), None):
                self._templates, self._extend = [template], extend

    def _pass_event(self, event: Event, block: bytes, out: list[bytes]) -> None:
        if event.comments:
            self._pass_comments(event.comments, out)
        events = self._reader.read(event)
        self._templates.clear()
        if self._owed is not None:
            # The charge is known now, so no more has to be read.
            if self._reader.finished and self._reader.usage is not None:
                raise self._owed
            return
        if self._reader.begun and not self.begun:
            self.begun = True
            tokens = self._reader.read_report(self._context.expected).tokens
            self._writer.open(ReplyUsage(tokens, estimated=False, reported=self._reader.usage))
        try:
            for one in events:
                self._writer.write(one)
            if events and self._may_learn:
                self._learn(block, maybe_loads(event.data or b""))
        # The provider goes on working and charging, so the stream is read until its usage comes.
        except UndeliverableReply as error:
            self._owed = error

    def _end(self, out: list[bytes]) -> None:
        if self._owed is None:
            super()._end(out)
        else:
            self.failure = self._owed

    def _add(self, event: Json, out: list[bytes]) -> None:  # noqa: ARG002
        self._writer.write(event)

    def _pass_oversized(self, piece: bytes) -> bytes:  # noqa: ARG002
        self.failure = UndeliverableReply("The upstream sent a stream event that is too large.")
        return b""

    def _close(self) -> None:
        # Buffered output counts as delivered, so it is written before the usage is measured.
        self._writer.flush()
        self.complete = True
        metered = self.measure()
        self._writer.close(ReplyUsage(metered.tokens, metered.estimated, self._reader.usage))
