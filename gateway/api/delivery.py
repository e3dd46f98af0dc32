"""The delivery of a provider's reply: its bytes in, the caller's bytes out in the same call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.api.admission import Completion
from gateway.api.bodies import SMALL_BYTES, count_reply, is_large, may_read, run_large
from gateway.api.lifecycle import Lifecycle, Phase
from gateway.api.sink import Sink
from gateway.base.errors import UpstreamError
from gateway.dialects.exchanges import MAX_REPLY_BYTES, looks_like_json
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import ReplyContext
from gateway.upstream.receivers import Wants
from gateway.upstream.routing import Candidate


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """A `Receiver` of one reply. A request has at most one delivery: no route is tried after an answer."""

    _completion: Completion
    _sink: Sink
    _life: Lifecycle
    _candidate: Candidate
    _content_type: str
    """The type of audio, if the request wants audio and the provider says so; else it is not looked at."""
    _context: ReplyContext
    _on_caller_left: Callable[[], None]
    _pipeline: Pipeline = field(init=False)
    """The same object as `_life.pipeline`, which may be None."""
    _sniffed: bool = False
    _begun: bool = False
    _ending: bool = False
    """The pipeline works in another thread, so this thread must not touch it."""
    _buffered: int = 0
    """The bytes that count against the account's share."""
    _room: asyncio.Future[None] | None = None
    """Done when more of the reply may be read or the attempt is over; None while nothing waits for
    room."""

    def __post_init__(self) -> None:
        exchange, is_stream = self._candidate.exchange, self._completion.request.stream
        is_audio = exchange.upstream.makes_audio
        if is_audio:
            is_stream = self._content_type != ""  # else it is JSON
            self._sink.set_type(self._content_type)
        open_reply = exchange.open_stream if is_stream else exchange.open_reply
        self._pipeline = self._life.pipeline = open_reply(self._context)
        self._sniffed = is_audio or not is_stream  # audio may begin with any byte

    async def process_rest(self) -> None:
        """Process what is left once the body was received: little on the loop, much in the thread.

        Raises GatewayError.
        """
        pipeline = self._pipeline
        if pipeline.complete:
            return
        # A whole JSON reply is read in this last work. Where its values are not limited, none is parsed.
        is_parsed = self._candidate.exchange.max_elements < MAX_REPLY_BYTES
        values = pipeline.buffered_elements if is_parsed else 0
        if not is_large(pipeline.buffered_bytes, values):
            out = pipeline.end()
        else:
            self._ending = True
            try:
                out = await run_large(self._completion.call, pipeline.end)
            finally:
                # This thread may touch the pipeline again, whether its end failed or not.
                self._ending = False
        if self._buffered:  # the body read has become the caller's reply
            self._count_buffered(pipeline.buffered_bytes)
        if out and pipeline.begun:
            self._sink.send(out)
        if pipeline.failure is not None:
            raise pipeline.failure
        if not pipeline.complete:
            raise UpstreamError("The upstream provider's stream broke off.")

    def receive(self, data: bytes) -> Wants:
        """See `Receiver`. The hot path of streams: events go out in this call."""
        if not self._sniffed:
            self._sniff(data)
        pipeline = self._pipeline
        out = pipeline.feed(data)
        if not self._begun and (pipeline.begun or not self._completion.request.stream):
            self._begun = True
            # The breakers need not wait for the end of a long reply.
            self._candidate.provider.note_alive(self._candidate.target.upstream_model)
        # Comments before the first event are dropped: the gateway sends its own.
        proceed = not (out and self._begun) or self._sink.send(out)
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
        life = self._life
        if life.phase is not Phase.ANSWERED or life.caller_gone or not self._pipeline.begun:
            return
        # Raised before the caller can read anything, so that it cannot spend the same money elsewhere.
        self.raise_hold()
        try:
            await self._sink.begin()
        except ConnectionError:
            self._on_caller_left()
        if not life.caller_gone:
            self._completion.call.note_first_byte()
            life.advance(Phase.STREAMING)

    def raise_hold(self) -> None:
        """Raise the hold to what the stream has used so far, so that others are refused in time."""
        if not self._ending:
            self._completion.bill.raise_to(self._pipeline.measure())

    def _count_buffered(self, size: int) -> bool:
        """Count the bytes that are buffered; return whether more may be read."""
        size = size if size > SMALL_BYTES else 0
        if size == self._buffered:
            return True
        self._buffered = size
        return count_reply(self._completion.call, size)

    def _sniff(self, data: bytes) -> None:
        """Replace the pipeline if a provider answers a request for a stream with a JSON object."""
        # White space does not tell events from JSON yet.
        self._sniffed = bool(data.strip())
        if looks_like_json(data):
            replay = self._candidate.exchange.open_replay(self._context)
            self._pipeline = self._life.pipeline = replay
