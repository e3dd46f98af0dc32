"""The seams of a reply under way: provider's events read, caller's events written, and both as one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.base.errors import GatewayError, UpstreamError
from gateway.base.usage import Expected, Metered, Reported
from gateway.dialects.wire.jsonbytes import maybe_loads
from gateway.dialects.wire.records import Event, Json, ReplyUsage
from gateway.dialects.wire.sse import DONE_DATA

Probed = tuple[Json, str, str]
"""An event with a probe in place of its one text, the text's key, and the text."""


class Pipeline(Protocol):
    """One stream. All properties can be read at any time.

    An instance serves one attempt. After `failure` is set, `feed` is not called again.
    """

    @property
    def begun(self) -> bool:
        """`feed` has returned an event, not only comments."""

    @property
    def complete(self) -> bool:
        """The terminal event was read, or a clean end replaces it. `take_last` may be called."""

    @property
    def failure(self) -> GatewayError | None:
        """The upstream reported a failure in its stream, or sent bytes that are no stream."""

    @property
    def mid_event(self) -> bool:
        """An oversized event is passing in pieces: nothing may be inserted between them."""

    @property
    def finished(self) -> bool:
        """Every choice has its finish reason; only usage and the terminal event may follow."""

    @property
    def delivered(self) -> bool:
        """The events so far have output of the model, even if only a call without arguments."""

    @property
    def position(self) -> Json | None:
        """Where the stream is, such as its next sequence number; None if the dialect has no such thing.

        Error events continue the numbering. If a translated stream has delivered output, the position
        includes the `usage` that will be charged.
        """

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes not passed on yet, such as the beginning of an event. `end` will read them."""

    @property
    def buffered_elements(self) -> int:
        """An upper bound of the JSON values in `buffered_bytes`."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the upstream; return whole events for the caller."""

    def end(self) -> bytes:
        """Note the upstream's clean end; return the remaining output. May set `complete`."""

    def take_last(self) -> bytes:
        """Return the last bytes (`data: [DONE]`, `message_stop`), which are sent after the charge."""

    def measure(self) -> Metered:
        """Return the usage to charge if the stream ends here."""


class EventReader(ABC):
    """Reads the events of one upstream stream, for the stream that passes and for translations."""

    __slots__ = ("begun", "ended", "usage")

    counted = True
    """`usage` covers the whole reply, if the stream is complete."""
    keeps_comments = True
    """Translations pass comments on, as a sign that the provider is alive."""

    def __init__(self) -> None:
        self.usage: Json | None = None
        """The last usage reported."""
        self.begun = False
        """The reply has begun: without this, a terminal event ends nothing."""
        self.ended = False
        """The terminal event was read."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Every choice has its finish reason: a clean end may stand for the terminal event."""

    def read_event(self, event: Event) -> Json | None:
        """Read an event's object; None for an event without content.

        Raises GatewayError for an error, and UpstreamError for data that are no event of this dialect.
        """
        data = (event.data or b"").strip()
        if data == DONE_DATA:
            self._note_done()
        if data in (b"", b"null", DONE_DATA):  # some servers keep a stream alive with nulls
            return None
        body = maybe_loads(event.data or b"")
        if not isinstance(body, dict):
            raise UpstreamError("The upstream sent a stream event that is not JSON.")
        return self._read_object(body, event.name)

    @abstractmethod
    def _read_object(self, body: Json, name: str) -> Json | None:
        """Read the object of an event of this name; see `read_event`."""

    def _note_done(self) -> None:  # noqa: B027 - only chat streams end with it; imitations send it elsewhere
        """Note `[DONE]`."""

    def read(self, event: Event) -> Sequence[Json]:
        """Read an event as zero or more events that conform to the dialect's schema."""
        body = self.read_event(event)
        return [] if body is None else [body]

    def maybe_probe(self, event: Json) -> Probed | None:  # noqa: ARG002 - not all dialects need it
        """Put a probe into an event just read, if similar events differ only in one text. Here: never."""
        return None

    def read_end(self, end: bytes, usage: Json | None) -> None:  # noqa: B027 - most need nothing of it
        """Read the last bytes of an event too large to keep, and the usage in them, if any."""

    def close(self) -> Sequence[Json]:
        """Return the events that are missing before the terminal event, which was read.

        Raises UpstreamError for a reply that is cut short.
        """
        return ()

    def is_end(self, rest: bytes) -> bool:  # noqa: ARG002 - a terminal event has to be whole
        """Return whether these bytes, although no whole event yet, already end the stream."""
        return False

    @abstractmethod
    def read_report(self, expected: Expected) -> Reported:
        """Read `usage` and the terms on which the reply was served."""


class EventWriter(ABC):
    """Writes one stream in the caller's dialect from the events of an `EventReader`.

    The order is `open`, any number of `write`, `flush`, `close`, `take_last`; each but `take_last` adds events
    that `take` returns. `write`, `flush` and `close` raise UpstreamError.
    """

    __slots__ = ("out", "text_bytes")

    def __init__(self) -> None:
        self.text_bytes = 0
        """UTF-8 bytes of text, reasoning and arguments in the events so far."""
        self.out: list[bytes] = []
        """The events since the last `take`."""

    @property
    def delivered(self) -> bool:
        """The events so far have output of the model, even if only a call without arguments."""
        return self.text_bytes > 0

    @property
    def position(self) -> Json | None:
        """See `Pipeline`."""
        return None

    @abstractmethod
    def open(self, usage: ReplyUsage) -> None:
        """Begin the reply; `usage` is what was reported so far."""

    @abstractmethod
    def write(self, event: Json) -> None: ...

    def maybe_extend(self, probed: Json, key: str) -> Callable[[str], None] | None:  # noqa: ARG002
        """Return a function that writes the text of an event like `probed`; None if the event needs `write`.

        The function is valid until another event is written.
        """
        return None

    def flush(self) -> None:  # noqa: B027 - not all writers hold events back
        """Write the events held back: no more input will come."""

    @abstractmethod
    def close(self, usage: ReplyUsage) -> None:
        """Write the last events except the terminal one."""

    @abstractmethod
    def take_last(self) -> bytes:
        """Return the terminal event."""

    def take(self) -> bytes:
        """Return the events since the last call."""
        out = b"".join(self.out)
        self.out.clear()
        return out
