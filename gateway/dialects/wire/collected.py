"""Replies that are read whole before any of them goes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.base import Pipeline
from gateway.dialects.records import Json, Reply
from gateway.dialects.wire.jsonbytes import bound_elements
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.errors import GatewayError, UndeliverableReply, UpstreamError
from gateway.usage import Expected, Metered, Reported, meter

MAX_REPLY_BYTES: Final = 64 << 20
"""Bytes of the largest JSON reply: it is held back whole until it is charged. Replies with base64
audio have some MiB."""
MAX_REPLAYED_BYTES: Final = 8 << 20
"""Bytes of a JSON reply that is sent as a stream, as many as a translated event."""

MAX_REPLY_ELEMENTS: Final = 1_000_000
"""JSON values of a JSON reply: 3,400 tokens with 20 alternatives each have 1,000,000, and orjson,
which lets no other thread run, reads them in 40 ms."""

_TOO_LARGE: Final = "The upstream provider's reply is too large."


def looks_like_json(data: bytes) -> bool:
    """Return whether a body's first bytes begin a JSON object or array: no line of a stream does."""
    return data.lstrip()[:1] in (b"{", b"[")


class _HeldBody:
    """The part of a `Pipeline` that holds a JSON body back until all of it is here."""

    __slots__ = ("_expected", "_pieces", "failure", "held_bytes", "held_elements")

    mid_event: Final = False
    _most_bytes: int

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._pieces: list[bytes] = []
        self.held_bytes = self.held_elements = 0
        self.failure: GatewayError | None = None

    def feed(self, data: bytes) -> bytes:
        self._pieces.append(data)
        self.held_bytes += len(data)
        self.held_elements += bound_elements(data)
        if self.held_bytes > self._most_bytes:
            begin = next((piece for piece in self._pieces if piece.strip()), b"")
            is_reply = looks_like_json(begin)  # a page of HTML is free
            self.failure = (UndeliverableReply if is_reply else UpstreamError)(_TOO_LARGE)
        return b""

    def _take(self) -> bytes:
        # Let go at once: a large body would otherwise be in memory twice until it is sent.
        body, self._pieces = b"".join(self._pieces), []
        self.held_bytes = 0
        return body

    def _measure_unread(self) -> Metered:
        """Estimate a reply of which nothing was read: one too large counts for a picture."""
        too_large = isinstance(self.failure, UndeliverableReply)
        text_bytes = PICTURE_BYTES if too_large else 0
        return meter(Reported(), text_bytes, self._expected, complete=False)


class CollectedReply(_HeldBody):
    """A `Pipeline` for a JSON reply: `finish` gives the whole body for the caller."""

    __slots__ = ("_read", "_reply", "complete", "delivered", "finished")

    begun: Final = False
    position: Final = None
    _most_bytes = MAX_REPLY_BYTES

    def __init__(self, read: Callable[[bytes], Reply], expected: Expected) -> None:
        """`read` turns the body into the caller's reply. It raises UpstreamError if the body is no reply."""
        super().__init__(expected)
        self._read = read
        self._reply: Reply | None = None
        self.finished = self.delivered = self.complete = False

    def end(self) -> bytes:
        try:
            self._reply = self._read(self._take())
        except UpstreamError as error:
            self.failure = error
        else:
            self.finished = self.delivered = True
            self.held_bytes = len(self._reply.body)
            self.failure = self._reply.failure
            self.complete = self.failure is None
        return b""

    def finish(self) -> bytes:
        assert self._reply is not None
        return self._reply.body

    def measure(self) -> Metered:
        return self._measure_unread() if self._reply is None else self._reply.metered


class ReplayedReply(_HeldBody):
    """A `Pipeline` around another one, which gets a JSON reply as the events of a stream.

    Some providers ignore `stream`.
    """

    __slots__ = ("_inner", "_replay")

    _most_bytes = MAX_REPLAYED_BYTES

    def __init__(
        self, inner: Pipeline, replay: Callable[[bytes], bytes], expected: Expected
    ) -> None:
        super().__init__(expected)
        self._inner = inner
        self._replay = replay

    @property
    def begun(self) -> bool:
        return self._inner.begun

    @property
    def complete(self) -> bool:
        return self._inner.complete

    @property
    def finished(self) -> bool:
        return self._inner.finished

    @property
    def delivered(self) -> bool:
        return self._inner.delivered

    @property
    def position(self) -> Json | None:
        return self._inner.position

    def end(self) -> bytes:
        try:
            events = self._replay(self._take())
        except UpstreamError as error:
            self.failure = error
            return b""
        out = self._inner.feed(events) + self._inner.end()
        self.failure = self._inner.failure
        return out

    def finish(self) -> bytes:
        return self._inner.finish()

    def measure(self) -> Metered:
        return self._inner.measure() if self._inner.begun else self._measure_unread()
