"""The seams of a reply under way: what reads a provider's, what writes a caller's, and the two as one."""

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
        """An event (not only comments) has come out of `feed`."""

    @property
    def complete(self) -> bool:
        """The upstream's terminal event was seen, or a clean end stands for it: `take_last` may be called."""

    @property
    def failure(self) -> GatewayError | None:
        """The upstream reported a failure in its stream, or sent bytes that are no stream."""

    @property
    def mid_event(self) -> bool:
        """An oversized event is passing in pieces: nothing may be put in between."""

    @property
    def finished(self) -> bool:
        """Every choice has its finish reason; only usage and the terminal event may follow."""

    @property
    def delivered(self) -> bool:
        """Anything that the model made was among the events, be it a call without arguments."""

    @property
    def position(self) -> Json | None:
        """Where the stream stands, such as its next sequence number; None if the dialect has no such thing.

        Error events continue the numbering. If a translated stream has delivered output, the position
        includes the `usage` that will be charged.
        """

    @property
    def buffered_bytes(self) -> int:
        """The bytes not passed on yet, such as the beginning of an event. `end` has to read them."""

    @property
    def buffered_elements(self) -> int:
        """An upper bound of the JSON values in `buffered_bytes`."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the upstream, return whole events for the caller."""

    def end(self) -> bytes:
        """Note the upstream's clean end; return the remaining output. May set `complete`."""

    def take_last(self) -> bytes:
        """Return the last bytes (`data: [DONE]`, `message_stop`): they wait for the charge."""

    def measure(self) -> Metered:
        """Return what to charge for if nothing more comes."""


class EventReader(ABC):
    """Reads the events of one upstream stream, for the stream that passes and for translations."""

    __slots__ = ("begun", "ended", "usage")

    counted = True
    """The usage covers the whole reply, if the stream is complete."""
    keeps_comments = True
    """Translations pass comments on: they show that the provider is alive."""

    def __init__(self) -> None:
        self.usage: Json | None = None
        """The last usage reported."""
        self.begun = False
        """The reply has begun, so a terminal event has a reply to end."""
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

    def _note_done(self) -> None:  # noqa: B027 - an end in chat alone; imitations of others add it
        """Note `[DONE]`."""

    def read(self, event: Event) -> Sequence[Json]:
        """Read an event as none, one or several events of the dialect's schema."""
        body = self.read_event(event)
        return [] if body is None else [body]

    def maybe_probe(self, event: Json) -> Probed | None:  # noqa: ARG002 - not all dialects need it
        """Probe an event just read, if others like it have a text alone: nothing for this reader."""
        return None

    def read_end(self, end: bytes, usage: Json | None) -> None:  # noqa: B027 - most take them for nothing
        """Read the last bytes of an event too large to keep, and the usage in them, if any."""

    def close(self) -> Sequence[Json]:
        """Return the events that are missing before the terminal event, which was read.

        Raises UpstreamError for a reply that is cut short.
        """
        return ()

    def is_end(self, rest: bytes) -> bool:  # noqa: ARG002 - a terminal event has to be whole
        """Return whether bytes that are no whole event yet end the stream already."""
        return False

    @abstractmethod
    def read_report(self, expected: Expected) -> Reported:
        """Read `usage` and the terms that the reply was served on."""


class EventWriter(ABC):
    """Writes one stream in the caller's dialect from the events that an `EventReader` gives.

    The order is `open`, any number of `write`, `flush`, `close`, `take_last`; each but `take_last` adds events
    that `take` returns. `write`, `flush` and `close` raise UpstreamError.
    """

    __slots__ = ("_out", "text_bytes")

    def __init__(self) -> None:
        self.text_bytes = 0
        """UTF-8 bytes of text, reasoning and arguments in the events so far."""
        self._out: list[bytes] = []
        """The events since the last `take`."""

    @property
    def delivered(self) -> bool:
        """Anything that the model made was among the events, be it a call without arguments."""
        return self.text_bytes > 0

    @property
    def position(self) -> Json | None:
        """See `Pipeline`."""
        return None

    @abstractmethod
    def open(self, usage: ReplyUsage) -> None:
        """Begin the reply; `usage` is the report so far."""

    @abstractmethod
    def write(self, event: Json) -> None: ...

    def maybe_extend(self, probed: Json, key: str) -> Callable[[str], None] | None:  # noqa: ARG002
        """Return what writes the text of an event like `probed`, which has nothing else; None if unknown.

        It holds until another event is written.
        """
        return None

    def flush(self) -> None:  # noqa: B027 - not all hold something back
        """Write the events kept back, as nothing more will come."""

    @abstractmethod
    def close(self, usage: ReplyUsage) -> None:
        """Write the last events except the terminal one."""

    @abstractmethod
    def take_last(self) -> bytes:
        """Return the terminal event."""

    def take(self) -> bytes:
        """Return the events since the last call."""
        out = b"".join(self._out)
        self._out.clear()
        return out
