"""Upstream replies that come whole: JSON replies, kept until charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

from gateway.base.errors import GatewayError, UndeliverableReply, UpstreamError
from gateway.base.usage import Expected, Metered, Reported, meter
from gateway.dialects.wire.jsonbytes import bound_elements, limit_elements, refuse_reply
from gateway.dialects.wire.pipelines import Pipeline
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
SMALL_BYTES: Final = 1 << 16
"""Bytes of a reply whose values need not be counted: each value takes at least a byte, so even a dozen
readings stay below `MAX_REPLY_ELEMENTS`."""

_TOO_LARGE: Final = "The upstream provider's reply is too large."


def looks_like_json(data: bytes) -> bool:
    """Return whether a body's first bytes begin a JSON object or array, as no line of a stream does."""
    return data.lstrip()[:1] in (b"{", b"[")


@dataclass(slots=True, eq=False)
class CollectedReply:
    """A `Pipeline` for a JSON reply: `finish` gives the whole body for the caller."""

    _read: Callable[[bytes], Reply]
    """Turns the body into the caller's reply. It raises UpstreamError if the body is no reply."""
    _expected: Expected
    _most_bytes: int
    _most_elements: int
    _body: BytesIO = field(default_factory=BytesIO)
    _reply: Reply | None = None
    buffered_bytes: int = 0
    buffered_elements: int = 0
    begun: bool = False
    complete: bool = False
    delivered: bool = False
    failure: GatewayError | None = None
    finished: bool = False
    mid_event: bool = False
    position: Json | None = None

    def feed(self, data: bytes) -> bytes:
        self._body.write(data)
        self.buffered_bytes += len(data)
        self.buffered_elements += bound_elements(data)
        if self.buffered_bytes > self._most_bytes:
            is_reply = looks_like_json(self._body.getvalue())  # a page of HTML is free
            self.failure = (UndeliverableReply if is_reply else UpstreamError)(_TOO_LARGE)
        return b""

    def end(self) -> bytes:
        # Without a copy: joining 40 MiB of pieces would hold the GIL, and so block the loop, for 25 ms.
        body, self._body = self._body.getvalue(), BytesIO()
        self.buffered_bytes = 0
        try:
            if len(body) <= SMALL_BYTES:
                self._reply = self._read(body)
            else:
                with limit_elements(self._most_elements, refuse_reply):
                    self._reply = self._read(body)
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
        if self._reply is not None:
            return self._reply.metered
        # Of what was not read, only a reply that is too large is charged, as a picture.
        too_large = isinstance(self.failure, UndeliverableReply)
        text_bytes = PICTURE_BYTES if too_large else 0
        return meter(Reported(), text_bytes, self._expected, complete=False)


class ReplayedReply(CollectedReply):
    """A `Pipeline` that feeds a JSON reply to another one as the events of a stream.

    Some providers ignore `stream`.
    """

    __slots__ = ("_inner",)

    def __init__(
        self,
        inner: Pipeline,
        replay: Callable[[bytes], Reply],
        expected: Expected,
        most_bytes: int,
        most_elements: int,
    ) -> None:
        """`replay` turns the body into a reply whose body is events."""
        super().__init__(replay, expected, most_bytes, most_elements)
        self._inner = inner

    def end(self) -> bytes:
        super().end()
        inner, reply = self._inner, self._reply
        if reply is None:
            return b""
        self.complete = self.delivered = self.finished = False
        self.buffered_bytes = 0
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
        return self._inner.measure() if self.complete else super().measure()
