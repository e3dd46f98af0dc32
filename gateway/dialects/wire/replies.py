"""Upstream replies that come whole: JSON replies, kept until charged."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final

from gateway.base.errors import GatewayError, UndeliverableReply, UpstreamError
from gateway.base.usage import Expected, Metered, Reported, meter
from gateway.dialects.wire.base import Pipeline
from gateway.dialects.wire.jsonbytes import bound_elements
from gateway.dialects.wire.records import Json, Reply
from gateway.dialects.wire.stream import PICTURE_BYTES

MAX_REPLY_BYTES: Final = 64 << 20
"""Bytes of the largest JSON reply, which is kept whole until it is charged. Replies with base64 audio
have some MiB."""
MAX_REPLAYED_BYTES: Final = 8 << 20
"""Bytes of a JSON reply that is sent as a stream, as many as a translated event."""

MAX_REPLY_ELEMENTS: Final = 1_000_000
"""JSON values of a JSON reply: 3,400 tokens with 20 alternatives each have 1,000,000. orjson reads them
in 40 ms while holding the GIL."""

_TOO_LARGE: Final = "The upstream provider's reply is too large."


def looks_like_json(data: bytes) -> bool:
    """Return whether a body's first bytes begin a JSON object or array, as no line of a stream does."""
    return data.lstrip()[:1] in (b"{", b"[")


class _BufferedBody:
    """The part of a `Pipeline` that collects a whole JSON body."""

    __slots__ = (
        "_body", "_expected", "_most_bytes", "begun", "buffered_bytes", "buffered_elements", "complete",
        "delivered", "failure", "finished", "position",
    )  # fmt: skip

    mid_event: Final = False

    def __init__(self, expected: Expected, most_bytes: int) -> None:
        self._expected = expected
        self._most_bytes = most_bytes
        self._body = BytesIO()
        self.buffered_bytes = self.buffered_elements = 0
        self.begun = self.complete = self.delivered = self.finished = False
        self.failure: GatewayError | None = None
        self.position: Json | None = None

    def feed(self, data: bytes) -> bytes:
        self._body.write(data)
        self.buffered_bytes += len(data)
        self.buffered_elements += bound_elements(data)
        if self.buffered_bytes > self._most_bytes:
            is_reply = looks_like_json(self._body.getvalue())  # a page of HTML is free
            self.failure = (UndeliverableReply if is_reply else UpstreamError)(_TOO_LARGE)
        return b""

    def _take(self) -> bytes:
        # Without a copy: joining 40 MiB of pieces would hold the GIL, and so block the loop, for 25 ms.
        body, self._body = self._body.getvalue(), BytesIO()
        self.buffered_bytes = 0
        return body

    def _measure_unread(self) -> Metered:
        """Estimate a reply that was not read: one that is too large counts as a picture."""
        too_large = isinstance(self.failure, UndeliverableReply)
        text_bytes = PICTURE_BYTES if too_large else 0
        return meter(Reported(), text_bytes, self._expected, complete=False)


class CollectedReply(_BufferedBody):
    """A `Pipeline` for a JSON reply: `finish` gives the whole body for the caller."""

    __slots__ = ("_read", "_reply")

    def __init__(self, read: Callable[[bytes], Reply], expected: Expected) -> None:
        """`read` turns the body into the caller's reply. It raises UpstreamError if the body is no reply."""
        super().__init__(expected, MAX_REPLY_BYTES)
        self._read = read
        self._reply: Reply | None = None

    def end(self) -> bytes:
        try:
            self._reply = self._read(self._take())
        except GatewayError as error:
            self.failure = error
        else:
            self.finished = self.delivered = True
            self.buffered_bytes = len(self._reply.body)
            self.failure = self._reply.failure
            self.complete = self.failure is None
        return b""

    def finish(self) -> bytes:
        assert self._reply is not None
        return self._reply.body

    def measure(self) -> Metered:
        return self._measure_unread() if self._reply is None else self._reply.metered


class ReplayedReply(_BufferedBody):
    """A `Pipeline` that feeds a JSON reply to another one as the events of a stream.

    Some providers ignore `stream`.
    """

    __slots__ = ("_inner", "_replay", "_reply")

    def __init__(
        self, inner: Pipeline, replay: Callable[[bytes], Reply], expected: Expected, most: int
    ) -> None:
        """`replay` turns a body of at most `most` bytes into a reply whose body is events.

        It raises UpstreamError if the body is no reply.
        """
        super().__init__(expected, most)
        self._inner = inner
        self._replay = replay
        self._reply: Reply | None = None

    def end(self) -> bytes:
        try:
            self._reply = reply = self._replay(self._take())
        except GatewayError as error:
            self.failure = error
            return b""
        inner = self._inner
        out = inner.feed(reply.body) + inner.end() if reply.body else b""
        self.begun, self.delivered, self.finished = inner.begun, inner.delivered, inner.finished
        self.position, self.failure = inner.position, reply.failure or inner.failure
        # The provider made it, and told its usage.
        if type(self.failure) is UpstreamError and not reply.metered.unreported:
            self.failure = UndeliverableReply(self.failure.message)
        self.complete = inner.complete and self.failure is None
        return out

    def finish(self) -> bytes:
        return self._inner.finish()

    def measure(self) -> Metered:
        if self.complete:
            return self._inner.measure()
        return self._measure_unread() if self._reply is None else self._reply.metered
