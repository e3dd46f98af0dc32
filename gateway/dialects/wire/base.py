"""The seams between the dialects and those who use them.

    Caller       the wire format that a caller speaks: validation, errors, keep-alives
    Upstream     the wire format that a provider speaks: asking, reading, metering; also streams if it is a
                 `StreamingUpstream`, whose streams are events if it is an `EventUpstream`
    EventReader  reads an upstream's stream, for the stream that passes and for translations
    EventWriter  writes a caller's stream from a reader's events
    Pipeline     one stream under way: bytes of the upstream in, bytes for the caller out

Dialects derive from `Caller`, `EventUpstream` and `EventReader`, whose methods do what OpenAI's APIs do,
unless they are abstract. An `Exchange` (in `exchanges`) is a caller over an upstream, with a translation
(in `composed`) if they differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import orjson

from gateway.base.errors import GatewayError, UpstreamError
from gateway.base.money import Tokens
from gateway.base.prices import BillOptions
from gateway.base.usage import Expected, Metered, Reported
from gateway.dialects.wire.billed import read_bill_options
from gateway.dialects.wire.jsonbytes import maybe_loads
from gateway.dialects.wire.kinds import TOO_LONG
from gateway.dialects.wire.records import (
    DEFAULT_KIND,
    CompletionRequest,
    Event,
    Json,
    ListedModel,
    Query,
    RateLimit,
    Reasoning,
    ReplyContext,
    ReplyUsage,
    Target,
)
from gateway.dialects.wire.sse import DONE_DATA
from gateway.dialects.wire.usage import edit_model


class Pipeline(Protocol):
    """One stream. All properties can be read at any time.

    An instance serves one attempt. After `failure` is set, `feed` is not called again.
    """

    @property
    def begun(self) -> bool:
        """An event (not only comments) has come out of `feed`."""

    @property
    def complete(self) -> bool:
        """The upstream's terminal event was seen, or a clean end stands for it: `finish` may be called."""

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
        """The bytes not passed on yet: a JSON reply, or the beginning of an event.

        `end` has to read them. After `end` they are what `finish` returns.
        """

    @property
    def buffered_elements(self) -> int:
        """An upper bound of the JSON values in `buffered_bytes`."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the upstream, return whole events for the caller."""

    def end(self) -> bytes:
        """Note the upstream's clean end; return the remaining output. May set `complete`."""

    def finish(self) -> bytes:
        """Return the last bytes (`data: [DONE]`, `message_stop`): they wait for the charge."""

    def measure(self) -> Metered:
        """Return what to charge for if nothing more comes."""


class Caller(ABC):
    """The wire format that a caller speaks."""

    __slots__ = ()

    name: str
    path: str
    """The path of its completions after `/v1`, with the slash."""
    kind: str = DEFAULT_KIND
    """The kind of models that it uses."""
    conversation_field: str | None = None
    """The field of a request that has the conversation."""
    operation = "chat"
    """Its operation, as OpenTelemetry names it; the names for rerank and audio are our own."""
    marker: str | None = None
    """A header that only its SDKs send. It decides the dialect on paths that all dialects share."""
    may_stream = True
    """It may ask for a stream."""
    keep_alive = b": keep-alive\n\n"
    """The bytes sent into a silent stream, so that proxies keep the connection."""

    @abstractmethod
    def parse_request(self, data: bytes) -> CompletionRequest:
        """Validate a request. Raises BadRequest."""

    def render_error(self, error: GatewayError, request_id: str) -> bytes:  # noqa: ARG002 - the headers have the id
        """Write the JSON body of an error reply."""
        said = {name: getattr(error, name) for name in ("message", "type", "param", "code")}
        if error.code == TOO_LONG:
            said["param"] = self.conversation_field or error.param
        return orjson.dumps({"error": said})

    def render_error_event(
        self,
        error: GatewayError,
        request_id: str,
        position: Json | None,  # noqa: ARG002 - it stands alone
        headers: Mapping[str, str],  # noqa: ARG002 - every caller gets the same
    ) -> bytes:
        """Write the event that ends a stream at its `Pipeline.position`; `headers` are the request's."""
        return b"data: " + self.render_error(error, request_id) + b"\n\n"

    def reply_headers(self, request_id: str) -> dict[str, str]:
        """Return the headers of every reply."""
        return {"x-request-id": request_id}

    def limit_headers(self, limits: Sequence[RateLimit], now_ms: int) -> dict[str, str]:  # noqa: ARG002 - durations only
        """Return the headers with the key's limits; `now_ms` is the wall clock's time."""
        headers: dict[str, str] = {}
        for one in limits:
            headers[f"x-ratelimit-limit-{one.name}"] = str(one.limit)
            headers[f"x-ratelimit-remaining-{one.name}"] = str(one.remaining)
            headers[f"x-ratelimit-reset-{one.name}"] = one.reset
        return headers

    def list_models(self, models: Sequence[ListedModel], query: Query) -> Json:  # noqa: ARG002 - OpenAI's list has no pages
        """Write the list of models, or a page of it. Raises BadRequest for a bad query."""
        return {"object": "list", "data": [self.show_model(model) for model in models]}

    def show_model(self, model: ListedModel) -> Json:
        """Write one model of the list."""
        return {
            "id": model.id,
            "object": "model",
            "created": model.created,
            "owned_by": model.owned_by,
            "kind": model.kind,
        }


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

    The order is `open`, any number of `write`, `flush`, `close`, `finish`; each but `finish` adds events
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

    def flush(self) -> None:  # noqa: B027 - not all hold something back
        """Write the events kept back, as nothing more will come."""

    @abstractmethod
    def close(self, usage: ReplyUsage) -> None:
        """Write the last events except the terminal one."""

    @abstractmethod
    def finish(self) -> bytes:
        """Return the terminal event."""

    def take(self) -> bytes:
        """Return the events since the last call."""
        out = b"".join(self._out)
        self._out.clear()
        return out


class Upstream(ABC):
    """The wire format that a provider speaks: requests and JSON replies."""

    __slots__ = ()

    name: str
    path: str
    """The path after the provider's base URL, with the slash."""
    models_path = "/models"
    """The path of the provider's list of models, with a query where that is needed; "" if it has none."""
    default_reasoning: Reasoning = "none"
    """How its models accept a reasoning effort, unless the configuration says otherwise."""
    reply_name: str
    """The name of a JSON reply in errors, with its article."""
    makes_audio = False
    """Its replies are bytes of another type, not JSON or events."""
    passed_headers: tuple[str, ...] = ()
    """Headers that callers of the same dialect may send on to the upstream, in lower case."""

    def find_path(self, upstream_model: str, *, stream: bool) -> str:  # noqa: ARG002 - Vertex needs them
        """Return the path of a request, where it depends on the model."""
        return self.path

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        """Return the headers with the provider's key; without a key, the other required headers."""
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    @abstractmethod
    def ask(self, body: Json, target: Target) -> Json:
        """Address a request in this dialect to the upstream's model, and ask for the usage.

        Raises BadRequest for options that change the provider's bill and have no price.
        """

    read_bill_options: Callable[[Json, bytes, Target], BillOptions] = staticmethod(
        read_bill_options
    )
    """Reads what changes the bill in a request as it is sent: the object, its bytes, and its target.
    Raises BadRequest for what has no price."""

    parse: Callable[[bytes], object] = staticmethod(maybe_loads)
    """Parses a JSON body, or the part of it that is read; returns None if it is no JSON."""

    @abstractmethod
    def check_error(self, reply: Json, /) -> None:
        """Raise GatewayError for an error with status 200."""

    @abstractmethod
    def check_reply(self, reply: Json, /) -> bool:
        """Return whether an object is a reply of this dialect."""

    def find_usage(self, reply: Json, /) -> Json | None:
        """Find the usage in an object, whether it is a reply or not."""
        usage = reply.get("usage")
        return usage if type(usage) is dict else None

    @abstractmethod
    def read_report(self, reply: Json, expected: Expected) -> Reported:
        """Read the usage of an object, whether it is a reply or not, and the terms it was served on."""

    @abstractmethod
    def is_whole(self, reply: Json, /) -> bool:
        """Return whether a reply says why it ended; if not, it was cut short."""

    @abstractmethod
    def has_content(self, reply: Json) -> bool:
        """Return whether the model made any output, even a call without arguments."""

    @abstractmethod
    def count_text(self, reply: Json) -> int:
        """Count the UTF-8 bytes of text, reasoning and arguments in a reply."""

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:  # noqa: ARG002 - chat tells them
        """Write a reply for a caller of the same dialect: its own bytes except for required edits."""
        return edit_model(text, reply, context.request.model)


class StreamingUpstream(Upstream):
    """An `Upstream` that can be asked for a stream."""

    __slots__ = ()

    @abstractmethod
    def open_stream(self, context: ReplyContext) -> Pipeline:
        """Begin a stream to a caller of the same dialect, which passes except for edits."""


class EventUpstream(StreamingUpstream):
    """A `StreamingUpstream` whose streams are events."""

    __slots__ = ()

    @abstractmethod
    def replay_reply(self, text: bytes, reply: Json) -> bytes:
        """Write a reply and its bytes as a stream, as requested: some upstreams ignore `stream`.

        Raises UndeliverableReply for a reply that no stream can hold.
        """

    @abstractmethod
    def open_reader(self, context: ReplyContext) -> EventReader:
        """Begin a stream that is translated."""
