"""A caller's dialect over an upstream's: requests written for the provider, replies for the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Final

from gateway.base.errors import GatewayError, UndeliverableReply, UpstreamError
from gateway.base.usage import Metered, Reported, meter
from gateway.dialects.wire.base import Caller, EventUpstream, StreamingUpstream, Upstream
from gateway.dialects.wire.billed import check_audio
from gateway.dialects.wire.bounds import (
    MAX_ELEMENTS,
    bound_elements,
    limit_elements,
    refuse_elements,
    refuse_reply,
)
from gateway.dialects.wire.fields import dump_request, too_deep
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_object
from gateway.dialects.wire.passing import find_last_usage, read_outer_events
from gateway.dialects.wire.pipelines import EventWriter, Pipeline
from gateway.dialects.wire.records import (
    CompletionRequest,
    Json,
    Payload,
    Reply,
    ReplyContext,
    ReplyUsage,
    Target,
)
from gateway.dialects.wire.sse import BOM
from gateway.dialects.wire.stream import PICTURE_BYTES, TranslatedStream
from gateway.dialects.wire.usage import tells_work

MAX_REPLY_BYTES: Final = 64 << 20
"""Bytes of the largest JSON reply, which is kept whole until it is charged: replies with base64 audio have
some MiB."""
MAX_REPLAYED_BYTES: Final = 8 << 20
"""Bytes of a JSON reply that is translated into a stream, as many as a translated event may have."""

MAX_REPLY_ELEMENTS: Final = 1_000_000
"""JSON values of a JSON reply: 3,400 tokens with 20 alternatives each have 1,000,000. orjson reads them
in 40 ms while holding the GIL."""
UNCOUNTED_BYTES: Final = 1 << 16
"""Bytes of a reply whose values need not be counted: each value takes at least a byte, so even a dozen
readings stay below `MAX_REPLY_ELEMENTS`."""

_BEGINNING: Final = BOM + b" \t\n\r\v\f"
"""Bytes to skip before a text: a byte order mark may come in two reads, and no text begins with its bytes."""

_TOO_LARGE: Final = "The upstream provider's reply is too large."


def looks_like_json(data: bytes) -> bool:
    """Return whether a body begins as a JSON object or array. No stream of events begins so."""
    return trim(data)[:1] in (b"{", b"[")


def trim(body: bytes) -> bytes:
    """Return a body without a byte order mark, or the rest of one, and without white space around its text."""
    return body.rstrip().lstrip(_BEGINNING)


@dataclass(frozen=True, slots=True)
class Translation:
    """A translation between a caller's dialect and an upstream's: two functions, and streams."""

    translate_request: Callable[[CompletionRequest, Target], Json]
    """Writes the upstream's request. Raises BadRequest for content that cannot be carried over."""
    translate_reply: Callable[[Json, ReplyContext, ReplyUsage], Json]
    """Writes the caller's reply. Raises UpstreamError for content that no reply can hold."""
    open_writer: Callable[[ReplyContext], EventWriter]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The caller's names for a field of the upstream, if they differ: the first one in the request counts."""
    item_name: str = "[{}]"
    """The form in which the caller's errors name an item of an array."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A caller's dialect over an upstream's. Equal dialects pass bytes; others are translated."""

    caller: Caller
    upstream: Upstream
    translation: Translation | None = None
    """None between equal dialects."""
    max_elements: int | None = MAX_REPLY_ELEMENTS
    """The most JSON values of a reply; None where large parts of replies pass unparsed."""

    def __post_init__(self) -> None:
        """Raise TypeError if callers may request a stream that the upstream cannot give."""
        upstream = self.upstream
        wanted = StreamingUpstream if upstream.makes_audio else EventUpstream
        if self.caller.may_stream and not isinstance(upstream, wanted):
            raise TypeError(f"{upstream.name} is no {wanted.__name__}")

    @property
    def passed_headers(self) -> tuple[str, ...]:
        """The caller's headers that go on to the upstream, in lower case."""
        return self.upstream.passed_headers if self.translation is None else ()

    def write_request(self, request: CompletionRequest, target: Target) -> Payload:
        """Write the upstream's request.

        Raises BadRequest for content that cannot be carried over or has no price.
        """
        body, upstream = request.body, self.upstream
        if target.leave_out:
            body = {name: body[name] for name in body if name not in target.leave_out}
            request = replace(request, body=body)
        if request.audio:
            check_audio(request.audio, target)
        if self.translation is None:
            asked = upstream.ask(body, target)
        else:
            # The body has used a part of the budget; JSON in its strings, such as arguments, uses the rest.
            with limit_elements(MAX_ELEMENTS - request.elements, refuse_elements):
                try:
                    body = self.translation.translate_request(request, target)
                except RecursionError as error:  # documents within documents, hundreds of levels
                    raise too_deep() from error
                asked = upstream.ask(body, target)
        data = dump_request(asked)
        options = upstream.read_bill_options(asked, data, target)
        return Payload(data, options, not _EFFORT.isdisjoint(asked) and _says_effort(asked))

    def read_reply(self, body: bytes, context: ReplyContext) -> Reply:
        """Turn a JSON reply into the caller's. If it cannot be passed on, the result has a `failure`.

        Raises GatewayError for a provider's error, and for a body that is no reply and tells no usage.
        """
        upstream, text, out = self.upstream, trim(body), b""
        reply, metered, failure = self._read_and_meter(text, context)
        if failure is not None:
            return Reply(out, metered, failure)
        try:
            if self.translation is None:
                out = upstream.edit_reply(text, reply, context, metered.tokens)
            else:
                usage = ReplyUsage(metered.tokens, metered.estimated, upstream.find_usage(reply))
                out = dumps_lenient(self.translation.translate_reply(reply, context, usage))
        except UndeliverableReply as error:
            failure = error
        except UpstreamError as error:
            failure = _require_usage(error, upstream.find_usage(reply))
        return Reply(out, metered, failure)

    def replay_reply(self, body: bytes, context: ReplyContext) -> Reply:
        """Write a JSON reply as the upstream's stream, as requested, for `ReplayedStream`.

        If the reply is cut short, the result has a failure, too. Raises as `read_reply`.
        """
        upstream, text, out = self.upstream, trim(body), b""
        assert isinstance(upstream, EventUpstream)
        reply, metered, failure = self._read_and_meter(text, context)
        if upstream.check_reply(reply):
            try:
                out = upstream.replay_reply(text, reply)
            except UndeliverableReply as error:
                failure = error
        return Reply(out, metered, failure)

    def limit_values(self) -> limit_elements:
        """Limit the JSON values of a reply that is read within the result."""
        most = MAX_REPLY_BYTES if self.max_elements is None else self.max_elements
        return limit_elements(most, refuse_reply)

    @property
    def most_replayed_bytes(self) -> int:
        """The bytes of the largest JSON reply that is sent as a stream."""
        return MAX_REPLY_BYTES if self.translation is None else MAX_REPLAYED_BYTES

    def _read_and_meter(
        self, text: bytes, context: ReplyContext
    ) -> tuple[Json, Metered, GatewayError | None]:
        """Read a JSON reply; return it with its charge, and why the caller does not get it."""
        upstream, expected = self.upstream, context.expected
        try:
            reply, failure = self._parse(text)
            if failure is not None:
                failure = _require_usage(failure, upstream.find_usage(reply))
        except UndeliverableReply as error:
            return {}, _meter_unread(context), error
        if failure is not None:
            report = upstream.read_report(reply, expected)
            return reply, meter(report, 0, expected, complete=True), failure
        whole = upstream.is_whole(reply)
        report = upstream.read_report(reply, expected)
        metered = meter(report, 0, expected, complete=whole)
        if not whole or metered.tokens.output == 0:  # the report alone is not enough
            text_bytes, has_output = upstream.count_text(reply), upstream.has_content(reply)
            metered = meter(report, text_bytes, expected, complete=whole, delivered=has_output)
            # There is neither output nor a report, so nobody pays.
            if not (whole or has_output or tells_work(upstream.find_usage(reply))):
                raise UpstreamError("The upstream provider's reply is empty.")
        # The provider charges for a reply that is cut short, so the caller pays and gets an error.
        if not whole:
            failure = UndeliverableReply("The upstream provider's reply is cut short.")
        return reply, metered, failure

    def _parse(self, text: bytes) -> tuple[Json, UpstreamError | None]:
        """Parse a reply. For any other body, return the object that tells its usage, and the failure.

        Raises GatewayError if the body is an error.
        """
        upstream, failure = self.upstream, None
        try:
            reply = upstream.parse(text)
        except UpstreamError as error:
            reply, failure = None, error
        if type(reply) is dict:
            upstream.check_error(reply)
            if upstream.check_reply(reply):
                return reply, None
        for one in _list_errors(text, reply):
            if type(one) is dict:
                upstream.check_error(one)
        expected = "JSON" if reply is None else upstream.reply_name
        holder = reply if type(reply) is dict else find_last_usage(text) or {}
        return holder, failure or UpstreamError(f"The upstream's reply is not {expected}.")

    def open_stream(self, context: ReplyContext) -> Pipeline:
        """Begin a stream."""
        upstream = self.upstream
        if self.translation is None:
            assert isinstance(upstream, StreamingUpstream)
            return upstream.open_stream(context)
        assert isinstance(upstream, EventUpstream)
        reader = upstream.open_reader(context)
        return TranslatedStream(context, reader, self.translation.open_writer(context))


class ReplayedStream:
    """A `Pipeline` for JSON that came in place of events: it is read once it is whole, as if it were events."""

    mid_event: Final = False

    def __init__(self, exchange: Exchange, context: ReplyContext) -> None:
        self._exchange = exchange
        self._context = context
        self._stream = exchange.open_stream(context)
        self._body = BytesIO()
        """The reply so far; empty once it was read."""
        self._metered: Metered | None = None
        self.failure: GatewayError | None = None

    @property
    def begun(self) -> bool:
        return self._stream.begun

    @property
    def complete(self) -> bool:
        return self.failure is None and self._stream.complete

    @property
    def finished(self) -> bool:
        return self._stream.finished

    @property
    def delivered(self) -> bool:
        return self._stream.delivered

    @property
    def position(self) -> Json | None:
        return self._stream.position

    @property
    def buffered_bytes(self) -> int:
        return self._body.tell()

    @property
    def buffered_elements(self) -> int:
        return bound_elements(self._body.getvalue())

    def feed(self, data: bytes) -> bytes:
        """Keep a part of the reply. The stream fails if it is too large."""
        self._body.write(data)
        if self._body.tell() > self._exchange.most_replayed_bytes:
            self._metered, self.failure = refuse_large(self._body.getvalue(), self._context)
        return b""

    def end(self) -> bytes:
        """Read the reply; return its events. Raises as `Exchange.read_reply`."""
        stream = self._stream
        # Without a copy: joining 40 MiB of pieces would hold the GIL, and so block the loop, for 25 ms.
        body, self._body = self._body.getvalue(), BytesIO()
        with self._exchange.limit_values():
            reply = self._exchange.replay_reply(body, self._context)
        del body
        out = stream.feed(reply.body) + stream.end() if reply.body else b""
        failure, metered = reply.failure or stream.failure, reply.metered
        # The provider made the reply and told its usage, so it is charged.
        if type(failure) is UpstreamError and not metered.unreported:
            failure = UndeliverableReply(failure.message)
        if failure is None and stream.complete:
            metered = stream.measure()
        self._metered, self.failure = metered, failure
        return out

    def take_last(self) -> bytes:
        return self._stream.take_last()

    def measure(self) -> Metered:
        return self._stream.measure() if self._metered is None else self._metered


def refuse_large(body: bytes, context: ReplyContext) -> tuple[Metered, UndeliverableReply]:
    """Return the charge for a JSON reply that is too large, and its failure. Raises UpstreamError for HTML."""
    if not looks_like_json(body):  # a page of HTML is free
        raise UpstreamError(_TOO_LARGE)
    return _meter_unread(context), UndeliverableReply(_TOO_LARGE)


def _list_errors(text: bytes, reply: object) -> Sequence[object]:
    """Return the items that may be an error: the first and the last of a list (Google), or outer events."""
    if type(reply) is list and reply:
        return reply[0], reply[-1]
    return read_outer_events(text) if reply is None else ()


def _meter_unread(context: ReplyContext) -> Metered:
    """Return the charge for a body that is not read, as much as for a picture, since the provider made it."""
    return meter(Reported(), PICTURE_BYTES, context.expected, complete=False)


def _require_usage(failure: UpstreamError, usage: Json | None) -> UndeliverableReply:
    """Return the failure as one that is charged, if a usage tells of work. Else raise it: then nobody pays."""
    if not tells_work(usage):
        raise failure
    return UndeliverableReply(failure.message)


def _says_effort(asked: Json) -> bool:
    """Return whether an upstream's request, in any dialect, states how much to reason."""
    inner = (get_object(asked, name).get("effort") for name in ("output_config", "reasoning"))
    return any((asked.get("reasoning_effort"), asked.get("thinking"), *inner))


_EFFORT: Final = frozenset({"output_config", "reasoning", "reasoning_effort", "thinking"})
"""The members that may state it; most requests have none of them."""
