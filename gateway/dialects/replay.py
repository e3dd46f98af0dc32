"""A JSON reply where a stream was asked for: collected, then replayed as the stream. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.base import Pipeline
from gateway.errors import GatewayError, UpstreamError
from gateway.money import Tokens

MAX_COLLECTED_BYTES: Final = 8 << 20


def looks_like_json(data: bytes) -> bool:
    """Whether a body's first bytes begin a JSON object or array: no line of a stream does."""
    return data.lstrip()[:1] in (b"{", b"[")


class ReplayedReply:
    """A `Pipeline` around another one, which sees the reply as events at its end."""

    __slots__ = ("_body", "_inner", "_replay", "failure", "mid_event")

    def __init__(self, inner: Pipeline, replay: Callable[[bytes], bytes]) -> None:
        self._inner = inner
        self._replay = replay
        self._body = bytearray()
        self.failure: GatewayError | None = None
        self.mid_event = False

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

    def feed(self, data: bytes) -> bytes:
        self._body += data
        if len(self._body) > MAX_COLLECTED_BYTES:
            self.failure = UpstreamError("The upstream provider's reply is too large.")
        return b""

    def end(self) -> bytes:
        try:
            events = self._replay(bytes(self._body))
        except UpstreamError as error:
            self.failure = error
            return b""
        out = self._inner.feed(events) + self._inner.end()
        self.failure = self._inner.failure
        return out

    def finish(self) -> bytes:
        return self._inner.finish()

    def measure(self) -> tuple[Tokens, bool]:
        return self._inner.measure()
