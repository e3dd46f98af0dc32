"""What a wire format has to say: the seams between `surface`, `relay` and the dialects. No I/O.

A *caller dialect* decides what the caller sees: errors, ids, keep-alives, validation. An
*exchange* joins a caller dialect to an upstream dialect: it writes the upstream's request and
reads its reply. Equal dialects pass bytes; unequal ones translate. A pipeline is one stream on
its way: `feed` bytes in, bytes out, `finish` gives the last bytes once the charge is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gateway.errors import GatewayError
from gateway.money import Tokens
from gateway.usage import UsageLimits


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A validated request body and what the gateway has to know of it."""

    body: dict[str, Any]
    model: str
    stream: bool
    wants_usage: bool
    """Whether the caller asked for the usage chunk of a stream."""
    n: int
    max_tokens: int | None
    text_bytes: int
    """UTF-8 bytes of text in messages, tools and system: four are a token."""
    files: int
    """Pictures, recordings and documents."""


@dataclass(frozen=True, slots=True)
class Target:
    """What writing an upstream's request takes to know of the route."""

    upstream_model: str
    ask_usage: bool = True
    """Whether a stream's usage may be asked for (a provider's `stream_usage`)."""
    max_output_tokens: int = 128_000
    """The model's cap: what `max_tokens` becomes where the caller left out what the upstream needs."""
    reasoning: Literal["effort", "budget", "none"] = "effort"
    """How the model takes a reasoning effort that comes from the other dialect."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What a chat upstream calls the limit."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete JSON reply, ready for the caller."""

    body: bytes
    tokens: Tokens
    estimated: bool


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """What turning an upstream's answer into the caller's takes besides the answer."""

    request: CompletionRequest
    request_id: str
    limits: UsageLimits
    input_estimate: int


class Pipeline(Protocol):
    """One stream, I/O-free. All properties are readable at any time.

    An instance belongs to one attempt; after `failure` is set nothing more is fed.
    """

    @property
    def begun(self) -> bool:
        """An event (not only comments) has come out of `feed`."""

    @property
    def complete(self) -> bool:
        """The upstream's terminal event was seen (or made up for): `finish` may be called."""

    @property
    def failure(self) -> GatewayError | None:
        """The upstream said in its stream that it failed, or sent what is no stream."""

    @property
    def mid_event(self) -> bool:
        """An oversized event is passing in pieces: nothing may be put in between."""

    @property
    def finished(self) -> bool:
        """Every choice has its finish reason; only usage and the terminal event may follow."""

    @property
    def delivered(self) -> bool:
        """Whether any text, reasoning or arguments were among the events."""

    def feed(self, data: bytes) -> bytes:
        """Bytes from the upstream in, whole events for the caller out."""

    def end(self) -> bytes:
        """The upstream's clean end: what was left over; sets `complete` if nothing is missing."""

    def finish(self) -> bytes:
        """The last bytes (`data: [DONE]`, `message_stop`): sent after the charge is committed."""

    def measure(self) -> tuple[Tokens, bool]:
        """Tokens to charge, and whether they are estimated, as things stand."""


class Exchange(Protocol):
    """A caller dialect over an upstream dialect."""

    @property
    def path(self) -> str:
        """What follows the provider's base URL, with its slash."""

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        """How this upstream dialect takes the provider's key; empty without one."""

    @property
    def passed_headers(self) -> tuple[str, ...]:
        """The caller's headers that go on to the upstream, in lower case."""

    def write_request(self, request: CompletionRequest, target: Target) -> bytes:
        """The upstream's request body. Raises BadRequest for what cannot be carried over."""

    def read_reply(self, body: bytes, context: ReplyContext) -> Reply:
        """A JSON reply. Raises UpstreamError when it is none."""

    def replay_reply(self, body: bytes) -> bytes:
        """A JSON reply to a request for a stream, as the stream it should have been."""

    def open_pipeline(self, context: ReplyContext) -> Pipeline: ...


class ErrorDialect(Protocol):
    """How a caller is told what went wrong: all that a route without completions needs."""

    @property
    def name(self) -> str: ...

    def render_error(self, error: GatewayError, request_id: str) -> bytes:
        """The JSON body of an error reply."""

    def render_error_event(self, error: GatewayError, request_id: str) -> bytes:
        """The event that ends a stream which cannot go on."""

    def reply_headers(self, request_id: str) -> Mapping[str, str]:
        """Headers on every reply of this dialect."""


class CallerDialect(ErrorDialect, Protocol):
    """What the caller's wire format looks like."""

    @property
    def keep_alive(self) -> bytes:
        """What is sent into a silent stream so that proxies in between wait on."""

    def parse_request(self, body: bytes) -> CompletionRequest:
        """Validate. Raises BadRequest."""
