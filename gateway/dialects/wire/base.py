"""The seams between the dialects and those who use them.

    Caller       the wire format that a caller speaks: validation, errors, keep-alives
    Upstream     the wire format that a provider speaks: asking, reading, metering; also streams if it is a
                 `StreamingUpstream`, whose streams are events if it is an `EventUpstream`

Those of a reply under way (`EventReader`, `EventWriter`, `Pipeline`) are in `pipelines`.

Dialects derive from `Caller`, `EventUpstream` and `EventReader`. Their methods do what OpenAI's APIs do,
unless they are abstract. An `Exchange` (in `exchanges`) is a caller over an upstream, with a `Translation` if
they differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from gateway.base.errors import GatewayError
from gateway.base.money import Tokens
from gateway.base.prices import BillOptions
from gateway.base.usage import Expected, Reported
from gateway.dialects.wire.billed import NO_ROWS, Billed, read_bill_options
from gateway.dialects.wire.jsonbytes import edit_model, maybe_loads
from gateway.dialects.wire.kinds import TOO_LONG, tell_as_openai
from gateway.dialects.wire.pipelines import EventReader, Pipeline
from gateway.dialects.wire.records import (
    DEFAULT_KIND,
    CompletionRequest,
    Json,
    Query,
    Reasoning,
    ReplyContext,
    Target,
)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """An entry of the list of models."""

    id: str
    kind: str
    owned_by: str
    created: int
    """Unix seconds; 0 means unknown."""
    max_input_tokens: int
    max_output_tokens: int


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A limit per minute of the caller's key, or of its account."""

    name: Literal["requests", "tokens"]
    limit: int
    remaining: int
    reset_seconds: float
    """The time until the limit is fully available again."""

    @property
    def reset(self) -> str:
        """The same as a Go duration, as OpenAI writes it: `12ms`, `1s`, `6m0s`."""
        milliseconds = max(0, round(self.reset_seconds * 1000))
        if milliseconds < 1000:  # noqa: PLR2004 - a second
            return f"{milliseconds}ms"
        minutes, rest = divmod(-(-milliseconds // 1000), 60)
        return f"{minutes}m{rest}s" if minutes else f"{rest}s"


class Caller(ABC):
    """The wire format that a caller speaks."""

    __slots__ = ()

    name: str
    path: str
    """The path of its completions after `/v1`, with the slash."""
    kind: str = DEFAULT_KIND
    """The kind of the models that it requests."""
    conversation_field: str | None = None
    """The field of a request that has the conversation."""
    operation = "chat"
    """The name of its operation in OpenTelemetry; the names for rerank and audio are our own."""
    marker: str | None = None
    """A header that only its SDKs send. On paths that all dialects share, it decides the dialect."""
    may_stream = True
    """It may ask for a stream."""
    keep_alive = b": keep-alive\n\n"
    """The bytes sent into a silent stream, so that proxies do not close the connection."""

    @abstractmethod
    def parse_request(self, data: bytes) -> CompletionRequest:
        """Validate a request. Raises BadRequest."""

    def render_error(self, error: GatewayError, request_id: str) -> bytes:  # noqa: ARG002 - the headers have the id
        """Write the JSON body of an error reply."""
        members = {name: getattr(error, name) for name in ("message", "type", "param", "code")}
        if error.code == TOO_LONG:
            members["param"] = self.conversation_field or error.param
            members["message"] = tell_as_openai(error.message)
        return orjson.dumps({"error": members})

    def render_error_event(
        self,
        error: GatewayError,
        request_id: str,
        position: Json | None,  # noqa: ARG002 - the event does not depend on it
        headers: Mapping[str, str],  # noqa: ARG002 - all callers get the same event
    ) -> bytes:
        """Write the error event that ends a stream at its `Pipeline.position`; `headers`: the request's."""
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
    """Its replies are bytes of audio, not JSON or events."""
    multiplied: Mapping[str, Billed] = NO_ROWS
    """Fields that multiply a service beyond what is counted: see `billed`."""
    demonstrate: Callable[[Json], Iterator[bytes]] | None = None
    """Yields the embedded provider's reply in pieces; None for conversations. Raises BadRequest."""
    passed_headers: tuple[str, ...] = ()
    """Headers that callers of the same dialect may send on to the upstream, in lower case."""

    def find_path(self, upstream_model: str, *, stream: bool) -> str:  # noqa: ARG002 - an extra's needs them
        """Return the path of a request, which may depend on the model."""
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
    """Reads the options that change the bill from a request as it is sent: the object, its bytes, its target.

    Raises BadRequest for an option that has no price."""

    parse: Callable[[bytes], object] = staticmethod(maybe_loads)
    """Parses a JSON body, or the part that is needed; returns None if it is no JSON."""

    @abstractmethod
    def check_error(self, reply: Json, /) -> None:
        """Raise GatewayError if the object is an error, sent with status 200."""

    @abstractmethod
    def check_reply(self, reply: Json, /) -> bool:
        """Return whether an object is a reply of this dialect."""

    def find_usage(self, reply: Json, /) -> Json | None:
        """Find the usage in an object, whether it is a reply or not."""
        usage = reply.get("usage")
        return usage if type(usage) is dict else None

    @abstractmethod
    def read_report(self, reply: Json, expected: Expected) -> Reported:
        """Read the usage of an object, whether it is a reply or not, and the terms on which it was served."""

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
        """Write a reply for a caller of the same dialect: its bytes (`text`), with the required edits."""
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
        """Write a JSON reply (`reply`, its bytes `text`) as a stream: some upstreams ignore `stream`.

        Raises UndeliverableReply for a reply that no stream can hold.
        """

    @abstractmethod
    def open_reader(self, context: ReplyContext) -> EventReader:
        """Begin a stream that is translated."""
