"""The delivery of a provider's reply: its bytes in, the caller's bytes out in the same call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO

from gateway.api.admission import Completion
from gateway.api.bodies import LOOP_VALUES, SMALL_BYTES, count_reply, is_large, may_read, run_large
from gateway.api.lifecycle import Lifecycle, Phase
from gateway.api.sink import Sink
from gateway.base.errors import UpstreamError
from gateway.base.usage import Metered, Reported, meter
from gateway.dialects.exchanges import (
    MAX_REPLY_BYTES,
    UNCOUNTED_BYTES,
    feed_reply,
    looks_like_json,
    refuse_large,
    trim,
)
from gateway.dialects.wire.bounds import bound_elements, limit_elements, refuse_reply
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import Reply, ReplyContext
from gateway.upstream.receivers import Wants
from gateway.upstream.routing import Route

log = logging.getLogger("gateway.completions")


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """A `Receiver` of one reply. A request has at most one delivery: no route is tried after an answer.

    A stream goes through its pipeline as it comes. A JSON reply is collected and read once it is whole;
    if the caller wants a stream, it is fed to the pipeline then.
    """

    _completion: Completion
    _sink: Sink
    _life: Lifecycle
    _route: Route
    _content_type: str
    """The content type of audio; "" for JSON and events."""
    _context: ReplyContext
    _on_caller_left: Callable[[], None]
    _pipeline: Pipeline | None = field(init=False, default=None)
    """The same object as `_life.pipeline`; None where the caller gets no stream."""
    _json: BytesIO | None = field(init=False, default=None)
    """The JSON reply so far; None for a stream, and once it was read."""
    _values: int = 0
    """An upper bound of the JSON values in it; 0 while it has too few bytes for many."""
    _most_bytes: int = MAX_REPLY_BYTES
    _reply: Reply | None = None
    """The JSON reply, read and written for its caller; or the failure of one that is too large."""
    _sniffed: bool = False
    _is_alive: bool = False
    """The breakers were told that the provider works."""
    _in_thread: bool = False
    """The pipeline works in another thread, so this thread must not touch it."""
    _buffered: int = 0
    """The bytes that count against the account's share."""
    _room: asyncio.Future[None] | None = None
    """Done when more of the reply may be read or the attempt is over; None while nothing waits for
    room."""

    def __post_init__(self) -> None:
        exchange, is_stream = self._route.exchange, self._completion.request.stream
        is_audio = exchange.upstream.makes_audio
        if is_audio:
            is_stream = self._content_type != ""  # else it is JSON
            self._sink.set_type(self._content_type)
        if is_stream:
            self._pipeline = self._life.pipeline = exchange.open_stream(self._context)
        else:
            self._json = BytesIO()
        self._sniffed = is_audio or not is_stream  # audio may begin with any byte

    @property
    def complete(self) -> bool:
        """The whole reply was read, so that `take_last` may be called."""
        if self._reply is not None and self._reply.failure is not None:
            return False
        return self._reply is not None if self._pipeline is None else self._pipeline.complete

    async def take_last(self) -> bytes:
        """Return what waits for the charge: a stream's last bytes, or a whole JSON reply. An extra may keep it."""
        if self._pipeline is not None:
            last = self._pipeline.take_last()
        else:
            assert self._reply is not None
            last = self._reply.body
        if self._completion.keep is not None:
            try:
                await self._completion.keep(last)
            # It is charged by now: a bug in an extra must not cost the caller its end.
            except Exception:
                log.exception("a reply could not be kept")
        return last

    def measure(self) -> Metered:
        """Return what to charge for if nothing more comes."""
        if self._reply is not None:
            return self._reply.metered
        if self._pipeline is not None:
            return self._pipeline.measure()
        return meter(Reported(), 0, self._context.expected, complete=False)

    async def process_rest(self) -> None:
        """Process what is left once the body was received: little on the loop, much in the thread.

        Raises GatewayError.
        """
        pipeline, json = self._pipeline, self._json
        if json is not None:
            size, values, work = json.tell(), self._values, self._read_json
        else:
            assert pipeline is not None
            if pipeline.complete:
                return
            size, values, work = pipeline.buffered_bytes, pipeline.buffered_elements, pipeline.end
        # If the number of values is not limited, JSON replies pass unparsed, so only their bytes count.
        is_parsed = self._route.exchange.max_elements < MAX_REPLY_BYTES
        # An extra's edit may copy the request into the reply, so a large request makes it slow.
        is_edited = self._completion.edit is not None and self._completion.request.is_large
        left = 0
        try:
            if not is_edited and not is_large(size, values if is_parsed else 0):
                out = work()
            else:
                self._in_thread = True
                out = await run_large(self._completion.call, work)
            # What was read has become the caller's reply.
            left = len(out) if pipeline is None else pipeline.buffered_bytes
        finally:
            # This thread may touch the pipeline again, whether its end failed or not.
            self._in_thread = False
            if self._buffered:
                self._count_buffered(left)
        if pipeline is not None and out and pipeline.begun:
            self._sink.send(out)
        ended = pipeline if self._reply is None else self._reply
        if ended is not None and ended.failure is not None:
            raise ended.failure
        if pipeline is not None and not pipeline.complete:
            raise UpstreamError("The upstream provider's stream broke off.")

    def receive(self, data: bytes) -> Wants:
        """See `Receiver`. The hot path of streams: events go out in this call."""
        if not self._sniffed:
            self._sniff(data)
        if self._json is not None:
            return self._collect(self._json, data)
        pipeline = self._pipeline
        assert pipeline is not None
        out = pipeline.feed(data)
        if not self._is_alive and pipeline.begun:
            self._is_alive = True
            # The breakers need not wait for the end of a long reply.
            self._route.provider.note_alive(self._route.target.upstream_model)
        # Comments before the first event are dropped: the gateway sends its own.
        proceed = not (out and self._is_alive) or self._sink.send(out)
        # Raised after the events before the failure were sent: they belong to the caller.
        if pipeline.failure is not None:
            raise pipeline.failure
        if pipeline.complete:
            return Wants.NOTHING
        # A stream whose events leave at once buffers next to nothing, so only larger waiting parts are
        # counted.
        if self._buffered or (not out and pipeline.buffered_bytes > SMALL_BYTES):
            proceed = self._count_buffered(pipeline.buffered_bytes) and proceed
        return Wants.MORE if proceed else Wants.ROOM

    def _collect(self, json: BytesIO, data: bytes) -> Wants:
        """Keep a part of a JSON reply. Raises GatewayError if it is too large."""
        if not self._is_alive and not self._completion.request.stream:
            self._is_alive = True
            self._route.provider.note_alive(self._route.target.upstream_model)
        json.write(data)
        size = json.tell()
        if size > LOOP_VALUES:
            was_counted = size - len(data) > LOOP_VALUES
            self._values += bound_elements(data if was_counted else json.getvalue())
        if size > self._most_bytes:
            self._reply = refuse_large(json.getvalue(), self._context)
            assert self._reply.failure is not None
            raise self._reply.failure
        has_room = size <= SMALL_BYTES or self._count_buffered(size)
        return Wants.MORE if has_room else Wants.ROOM

    def _read_json(self) -> bytes:
        """Read the JSON reply, which is whole; return the caller's, or the events for its stream."""
        exchange, context, stream = self._route.exchange, self._context, self._pipeline
        assert self._json is not None
        # Without a copy: joining 40 MiB of pieces would hold the GIL, and so block the loop, for 25 ms.
        body, self._json = self._json.getvalue(), None
        read = exchange.read_reply if stream is None else exchange.replay_reply
        if len(body) <= UNCOUNTED_BYTES:
            reply = read(body, context)
        else:
            with limit_elements(exchange.max_elements, refuse_reply):
                reply = read(body, context)
        del body
        if self._completion.edit is not None and reply.failure is None:
            self._completion.edit(reply)
        self._reply = reply if stream is None else feed_reply(stream, reply)
        self._life.has_reply = stream is None  # a stream's events tell
        out = self._reply.body
        if stream is not None:
            self._reply.body = b""  # it is sent at once, and may be large
        return out

    def end(self) -> None:
        """See `Receiver`: what is left to do may take long, see `process_rest`."""

    async def unblock(self) -> None:
        """See `Receiver`: send the head, or wait for room, or until the caller has taken its bytes."""
        # A reply that is buffered whole, such as JSON, counts against its account. Reading stops until there
        # is room, which passes the back-pressure on to the provider: its send window fills.
        if self._buffered and not may_read(self._completion.call):
            self._room = asyncio.get_running_loop().create_future()
            await self._room
            self._room = None
        if self._life.caller_gone:
            return
        if self._life.phase is not Phase.STREAMING:
            await self.begin()
            return
        # While this waits (at most for `stall_seconds`), bytes that the caller has not read count, too.
        buffered = self._buffered
        self._count_buffered(buffered + self._sink.unread_bytes)
        try:
            await self._sink.unblock()
        except ConnectionError:
            self._on_caller_left()
        finally:
            self._count_buffered(buffered)

    def tick(self) -> None:
        """Go on if there is room by now, or the request is over."""
        room, is_over = self._room, self._life.ended_by is not None
        if room is not None and not room.done() and (is_over or may_read(self._completion.call)):
            room.set_result(None)

    async def begin(self) -> None:
        """Send the head of a stream and the events that wait for it. Raises LedgerUnavailable."""
        life, pipeline = self._life, self._pipeline
        if life.phase is not Phase.ANSWERED or life.caller_gone:
            return
        if pipeline is None or not pipeline.begun:
            return
        # Raised before the caller can read anything, so that it cannot spend the same money elsewhere.
        self.raise_hold()
        try:
            await self._sink.begin()
        except ConnectionError:
            self._on_caller_left()
        if not life.caller_gone:
            self._completion.bill.note_first_byte()
            life.advance(Phase.STREAMING)

    def raise_hold(self) -> None:
        """Raise the hold to what the stream has used so far, so that others are refused in time."""
        if not self._in_thread:
            self._completion.bill.raise_to(self.measure())

    def _count_buffered(self, size: int) -> bool:
        """Count the bytes that are buffered; return whether more may be read."""
        size = size if size > SMALL_BYTES else 0
        if size == self._buffered:
            return True
        self._buffered = size
        return count_reply(self._completion.call, size)

    def _sniff(self, data: bytes) -> None:
        """Collect a JSON object that a provider sends to a request for a stream."""
        # White space, or a byte order mark, does not tell events from JSON yet.
        self._sniffed = bool(trim(data))
        if looks_like_json(data):
            exchange = self._route.exchange
            self._json, self._most_bytes = BytesIO(), exchange.most_replayed_bytes
            # A new one: the first may have been fed what came before the JSON.
            self._pipeline = self._life.pipeline = exchange.open_stream(self._context)
