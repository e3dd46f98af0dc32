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
from gateway.dialects.wire.pipelines import EventReader, EventWriter, Probed
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
MAX_TEMPLATES: Final = 4
"""Templates of one stream, which may mix text, reasoning and arguments: each one is tried on an event."""
PICTURE_BYTES: Final = TOKENS_PER_PICTURE * BYTES_PER_TOKEN
"""UTF-8 bytes that count for a picture, a recording or an event too large to read."""


class EventStream(ABC):
    """The part of a `Pipeline` that does not depend on what becomes of its events.

    That is up to `_match`, `_pass_event`, `_pass_oversized` and `_close`, which add their output to `_out`.
    """

    __slots__ = (
        "_context", "_framer", "_idle_bytes", "_idle_left", "_keeps_comments", "_may_learn", "_out",
        "_owed", "_reader", "_templates", "complete", "failure",
    )  # fmt: skip

    buffered_elements: Final = 0

    def __init__(self, context: ReplyContext, reader: EventReader, framer: sse.Framer) -> None:
        self.complete = False
        self.failure: GatewayError | None = None
        self._context = context
        self._framer = framer
        self._reader = reader
        self._keeps_comments = True
        self._out: list[bytes] = []
        """The output since `feed` or `end` began."""
        self._owed: UndeliverableReply | None = None
        """The error that will end a translated stream. Meanwhile the rest is read only for its usage."""
        self._templates: list[Template] = []
        """A translated stream has at most one: how its next text is written depends on the event before."""
        self._may_learn = MAX_FRUITLESS
        """Templates that may still be learned before one matches."""
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
        framer = self._framer
        try:
            is_passing = framer.mid_event
            passed, buffer = framer.push(data)
            # Called even without bytes: the event may have ended while its last bytes wait.
            if passed or is_passing:
                self._pass_oversized(passed, is_last=not framer.mid_event)
            position = self._scan(buffer)
            if position < len(buffer) and not self.complete:
                passed = framer.keep(buffer[position:])
                if passed:
                    self._pass_oversized(passed, is_last=not framer.mid_event)
        # The error is kept, not raised, so that earlier events still go to the caller.
        except GatewayError as error:
            self.complete, self.failure = False, error
        return self._take()

    def end(self) -> bytes:
        is_over = self.complete or self.failure is not None
        if is_over:
            return b""
        try:
            if last := self._framer.take_last():
                self._take_block(last)
            if self._framer.mid_event:
                self._pass_oversized(b"", is_last=True)
            # Some providers omit the terminal event; a clean end after all finish reasons replaces it.
            elif not self.complete and self._reader.begun and self._reader.finished:
                self._end()
        except GatewayError as error:
            self.complete, self.failure = False, error
        self.failure = self.failure or self._owed
        return self._take()

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

    def _take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _scan(self, buffer: bytes) -> int:
        """Pass the whole events of `buffer`; return the index of the first byte not used."""
        position, size = 0, len(buffer)
        # Nothing after the end is read or passed, since the charge is measured at the end.
        while position < size and not self.complete:
            # Templates come first, as nearly all events of a long stream match one.
            end = self._match(buffer, position) if self._templates else position
            if end == position:
                if buffer.startswith(sse.IDLE_BEGINNINGS, position):
                    idle_end = self._pass_idle(buffer, position)
                    if idle_end > position:
                        position = idle_end
                        continue
                end = sse.find_event_end(buffer, position)
                if end < 0:
                    if self._reader.is_end(buffer[position:]):
                        self._end()
                    break
                self._take_block(buffer[position:end])
            position = end
            self._idle_bytes, self._idle_left = 0, MAX_IDLE_PASSED
        return position

    def _pass_idle(self, buffer: bytes, position: int) -> int:
        """Pass the first comments or pings, drop the others; return the index after them all."""
        at = end = position
        if idle := sse.IDLE.match(buffer, position):
            end = idle.end()
            comments = [one[0] for one in islice(sse.COMMENT.finditer(idle[0]), self._idle_left)]
            self._idle_left -= len(comments)
            self._pass_comments(comments)
        elif pings := sse.PINGS.match(buffer, position):
            end = pings.end()
            while at < end and self._idle_left:
                self._idle_left -= 1
                ping_end = sse.find_event_end(buffer, at)
                self._take_block(buffer[at:ping_end])
                at = ping_end
        self._idle_bytes += end - position
        if self._idle_bytes > MAX_IDLE_BYTES:
            raise UpstreamError("The upstream provider's stream has comments alone.")
        return end

    def _pass_comments(self, comments: Sequence[bytes]) -> None:
        if self._keeps_comments:
            self._out += (comment + b"\n\n" for comment in comments)

    def _take_block(self, block: bytes) -> None:
        event = sse.parse_event(block)
        if event.comments:
            self._pass_comments(event.comments)
        self._pass_event(event, block)
        if self._reader.ended:
            self._end()

    def _end(self) -> None:
        """End the stream after the terminal event, or after a clean end that replaces it."""
        if self._owed is not None:
            raise self._owed
        reader, oversized = self._reader, self._framer.oversized_events
        # A terminal event without output before it (roles do not count) ends nothing, and nobody pays.
        made = self.delivered or reader.finished or reader.usage is not None
        if not made or not (reader.begun or oversized):
            # The provider reports usage, so it worked and will bill: the caller pays.
            kind = UndeliverableReply if tells_work(reader.usage) else UpstreamError
            raise kind("The upstream's stream ended before it began.")
        missing = reader.close()
        self.complete = True
        self._close(missing)

    def _learn_text(
        self,
        block: bytes,
        probe: Probed,
        edit: Callable[[bytes, Json], bytes] | None = None,
        note: Callable[[], None] | None = None,
    ) -> None:
        """Learn the template of an event, for events that differ from it only in one text.

        `edit` writes the output; without it the event passes unchanged. See `Template` for `note`.
        """
        if self._may_learn:
            self._may_learn -= 1
            probed, key, text = probe
            if cut := maybe_cut(block, probed, key, text):
                whole = PROBE_BYTES.join(cut)
                self._keep(maybe_learn(*cut, edit(whole, probed) if edit else whole, note))

    def _keep(self, template: Template | None) -> None:
        if template is not None:
            # The newest template comes first: the next event is most likely of its kind.
            self._templates = [template, *self._templates[: MAX_TEMPLATES - 1]]

    @abstractmethod
    def _match(self, buffer: bytes, position: int) -> int:
        """Pass events that match `_templates`; return the index after them, or `position` if none does."""

    @abstractmethod
    def _pass_event(self, event: Event, block: bytes) -> None:
        """Read and pass one whole event. Raises UpstreamError."""

    @abstractmethod
    def _pass_oversized(self, piece: bytes, *, is_last: bool) -> None:
        """Pass a piece of an event that is too large to keep."""

    @abstractmethod
    def _close(self, missing: Sequence[Json]) -> None:
        """Write the events that the upstream left out before the terminal one. Raises UpstreamError."""


class TranslatedStream(EventStream):
    """A `Pipeline` from one dialect to another: it reads with a reader and writes with a writer."""

    __slots__ = ("_extend", "_writer", "begun")

    _extend: Callable[[str], None]
    """Writes a text that `_templates` has read."""

    mid_event: Final = False

    def __init__(self, context: ReplyContext, reader: EventReader, writer: EventWriter) -> None:
        super().__init__(context, reader, sse.Framer(MAX_TRANSLATED_EVENT_BYTES))
        self._keeps_comments = reader.keeps_comments
        self._writer = writer
        self._out = writer.out
        self.begun = False

    @property
    def delivered(self) -> bool:
        return self._writer.delivered

    @property
    def position(self) -> Json | None:
        position = self._writer.position
        if position is None or not self.delivered:
            return position
        return {**position, "usage": self._report_usage()}

    @property
    def _text_bytes(self) -> int:
        return self._writer.text_bytes + self._framer.oversized_events * PICTURE_BYTES

    def take_last(self) -> bytes:
        return self._writer.take_last()

    def _report_usage(self) -> ReplyUsage:
        metered = self.measure()
        return ReplyUsage(metered.tokens, metered.estimated, self._reader.usage)

    def _match(self, buffer: bytes, position: int) -> int:
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
        """Learn the template of an event, if it brought only a text."""
        probe = self._reader.maybe_probe(body)
        if probe and (extend := self._writer.maybe_extend(probe[0], probe[1])):
            self._extend = extend
            self._learn_text(block, probe)

    def _pass_event(self, event: Event, block: bytes) -> None:
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

    def _pass_oversized(self, piece: bytes, *, is_last: bool) -> None:  # noqa: ARG002 - it cannot be read
        raise UndeliverableReply("The upstream sent a stream event that is too large.")

    def _close(self, missing: Sequence[Json]) -> None:
        for event in missing:
            self._writer.write(event)
        # Buffered output counts as delivered, so it is written before the usage is measured.
        self._writer.flush()
        self._writer.close(self._report_usage())
