"""The delivery of a provider's reply: its bytes in, the caller's bytes out in the same call."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import TypeVar

from gateway.api.admission import Completion
from gateway.api.bodies import LOOP_VALUES, SMALL_BYTES, count_reply, is_large, may_read, run_large
from gateway.api.lifecycle import Lifecycle, Phase
from gateway.api.sink import Sink
from gateway.base.errors import UpstreamError
from gateway.base.usage import Metered, Reported, meter
from gateway.dialects.exchanges import (
    MAX_REPLY_BYTES,
    UNCOUNTED_BYTES,
    ReplayedStream,
    looks_like_json,
    refuse_large,
    trim,
)
from gateway.dialects.wire.bounds import bound_elements
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import Reply, ReplyContext
from gateway.upstream.receivers import Wants
from gateway.upstream.routing import Route

T = TypeVar("T")


@dataclass(slots=True, eq=False, repr=False)
class Delivery(ABC):
    """A `Receiver` of one reply. A request has at most one delivery: no route is tried after an answer."""

    _completion: Completion
    _life: Lifecycle
    _route: Route
    _context: ReplyContext
    _is_alive: bool = field(init=False, default=False)
    """The breakers were told that the provider works."""
    _room: asyncio.Future[None] | None = field(init=False, default=None)
    """Done when more of the reply may be read or the attempt is over; None while nothing waits for
    room."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """The whole reply was read, so that `take_last` may be called."""

    @property
    @abstractmethod
    def delivered(self) -> bool:
        """A caller that leaves owes for what came so far, however the request ends."""

    @abstractmethod
    def receive(self, data: bytes) -> Wants:
        """See `Receiver`."""

    @abstractmethod
    async def process_rest(self) -> None:
        """Process what is left once the body was received: little on the loop, much in the thread.

        Raises GatewayError.
        """

    @abstractmethod
    def measure(self) -> Metered:
        """Return what to charge for if nothing more comes."""

    @abstractmethod
    def take_last(self) -> bytes:
        """Return what waits for the charge: a stream's last bytes, or a whole JSON reply."""

    def end(self) -> None:  # noqa: B027 - nothing is left to do here
        """See `Receiver`: what is left to do may take long, see `process_rest`."""

    async def unblock(self) -> None:
        """See `Receiver`: wait for room.

        A reply that is buffered whole, such as JSON, counts against its account. Reading stops until there
        is room, which passes the back-pressure on to the provider: its send window fills.
        """
        if self._completion.call.reply_bytes and not may_read(self._completion.call):
            self._room = asyncio.get_running_loop().create_future()
            await self._room
            self._room = None

    def tick(self) -> None:
        """Go on if there is room by now, or the request is over."""
        room, is_over = self._room, self._life.ended_by is not None
        if room is not None and not room.done() and (is_over or may_read(self._completion.call)):
            room.set_result(None)

    def _count_buffered(self, size: int) -> bool:
        """Count the bytes that are buffered; return whether more may be read."""
        call, size = self._completion.call, size if size > SMALL_BYTES else 0
        return size == call.reply_bytes or count_reply(call, size)

    def _is_large(self, size: int, bound_values: Callable[[], int]) -> bool:
        """Return whether what is buffered is processed in the thread."""
        # If the number of values is not limited, JSON replies pass unparsed, so only their bytes count.
        is_parsed = self._route.exchange.max_elements is not None
        return is_large(size, bound_values if is_parsed else None)


@dataclass(slots=True, eq=False, repr=False)
class JsonDelivery(Delivery):
    """A JSON reply: collected, read once it is whole, and kept until its charge is committed."""

    _body: BytesIO = field(init=False, default_factory=BytesIO)
    """The provider's reply so far; empty once it was read."""
    _reply: Reply | None = field(init=False, default=None)
    """The reply, read and written for its caller; or the failure of one that is too large."""

    @property
    def complete(self) -> bool:
        return self._reply is not None and self._reply.failure is None

    @property
    def delivered(self) -> bool:
        return self._reply is not None

    def receive(self, data: bytes) -> Wants:
        """See `Receiver`. Raises GatewayError if the reply is too large."""
        if not self._is_alive:
            self._is_alive = True
            self._route.provider.note_alive(self._route.target.upstream_model)
        body = self._body
        body.write(data)
        size = body.tell()
        if size > MAX_REPLY_BYTES:
            metered, failure = refuse_large(body.getvalue(), self._context)
            self._reply = Reply(b"", metered, failure)
            raise failure
        has_room = size <= SMALL_BYTES or self._count_buffered(size)
        return Wants.MORE if has_room else Wants.ROOM

    async def process_rest(self) -> None:
        completion, size, left = self._completion, self._body.tell(), 0
        # An extra's edit may copy the request into the reply, so a large request makes it slow.
        is_edited = completion.edit is not None and completion.request.is_large
        try:
            if is_edited or (size > LOOP_VALUES and self._is_large(size, self._bound_values)):
                reply = await run_large(completion.call, self._read)
            else:
                reply = self._read()
            left = len(reply.body)
        finally:
            if completion.call.reply_bytes:
                self._count_buffered(left)
        if reply.failure is not None:
            raise reply.failure

    def _bound_values(self) -> int:
        return bound_elements(self._body.getvalue())

    def _read(self) -> Reply:
        """Read the whole reply; return the caller's."""
        exchange, context = self._route.exchange, self._context
        # Without a copy: joining 40 MiB of pieces would hold the GIL, and so block the loop, for 25 ms.
        body, self._body = self._body.getvalue(), BytesIO()
        if len(body) <= UNCOUNTED_BYTES:
            reply = exchange.read_reply(body, context)
        else:
            with exchange.limit_values():
                reply = exchange.read_reply(body, context)
        del body
        if self._completion.edit is not None and reply.failure is None:
            self._completion.edit(reply)
        self._reply = reply
        return reply

    def measure(self) -> Metered:
        if self._reply is not None:
            return self._reply.metered
        return meter(Reported(), 0, self._context.expected, complete=False)

    def take_last(self) -> bytes:
        assert self._reply is not None
        return self._reply.body


@dataclass(slots=True, eq=False, repr=False)
class StreamDelivery(Delivery):
    """A stream, which goes through its pipeline as it comes."""

    _sink: Sink
    pipeline: Pipeline
    """Its own pipeline, or that of JSON which came in place of events."""
    _sniffs: bool
    """It has not shown yet whether it is events or JSON. Audio may begin with any byte."""
    _in_thread: bool = False
    """The pipeline works in another thread, so this thread must not touch it."""

    @property
    def complete(self) -> bool:
        return self.pipeline.complete

    @property
    def delivered(self) -> bool:
        return self.pipeline.delivered

    def receive(self, data: bytes) -> Wants:
        """See `Receiver`. The hot path of streams: events go out in this call."""
        if self._sniffs:
            # White space, or a byte order mark, does not tell events from JSON yet.
            self._sniffs = not trim(data)
            if looks_like_json(data):
                self.pipeline = ReplayedStream(self._route.exchange, self._context)
        pipeline = self.pipeline
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
        counted_bytes = self._completion.call.reply_bytes
        if counted_bytes or (not out and pipeline.buffered_bytes > SMALL_BYTES):
            proceed = self._count_buffered(pipeline.buffered_bytes) and proceed
        return Wants.MORE if proceed else Wants.ROOM

    async def process_rest(self) -> None:
        pipeline, left = self.pipeline, 0
        if pipeline.complete:
            return
        try:
            if self._is_large(pipeline.buffered_bytes, lambda: pipeline.buffered_elements):
                self._in_thread = True
                out = await run_large(self._completion.call, pipeline.end)
            else:
                out = pipeline.end()
            left = pipeline.buffered_bytes
        finally:
            # This thread may touch the pipeline again, whether its end failed or not.
            self._in_thread = False
            if self._completion.call.reply_bytes:
                self._count_buffered(left)
        if out and pipeline.begun:
            self._sink.send(out)
        if pipeline.failure is not None:
            raise pipeline.failure
        if not pipeline.complete:
            raise UpstreamError("The upstream provider's stream broke off.")

    def measure(self) -> Metered:
        return self.pipeline.measure()

    def take_last(self) -> bytes:
        return self.pipeline.take_last()

    async def unblock(self) -> None:
        """See `Receiver`: send the head, or wait for room, or until the caller has taken its bytes."""
        await Delivery.unblock(self)
        if self._life.caller_gone:
            return
        if self._life.phase is not Phase.STREAMING:
            await self.begin()
            return
        # While this waits (at most for `stall_seconds`), bytes that the caller has not read count, too.
        buffered = self._completion.call.reply_bytes
        self._count_buffered(buffered + self._sink.unread_bytes)
        try:
            await self._sink.unblock()
        except ConnectionError:
            pass  # the next tick finds the sink lost
        finally:
            self._count_buffered(buffered)

    async def begin(self) -> None:
        """Send the head and the events that wait for it. Raises LedgerUnavailable."""
        life = self._life
        if life.phase is not Phase.ANSWERED or life.caller_gone or not self.pipeline.begun:
            return
        # Raised before the caller can read anything, so that it cannot spend the same money elsewhere.
        self.raise_hold()
        try:
            await self._sink.begin()
        except ConnectionError:
            return  # the next tick finds the sink lost
        if not life.caller_gone:
            self._completion.bill.note_first_byte()
            life.advance(Phase.STREAMING)

    def raise_hold(self) -> None:
        """Raise the hold to what the stream has used so far, so that others are refused in time."""
        if not self._in_thread:
            self._completion.bill.raise_to(self.measure())
