"""One stream: upstream bytes through the pipeline to the caller, and how it ends.

Two tasks share a `Relay`. The upstream side (`run`) tries the routes and pushes bytes in by
`receive`; the caller's side (the request's handler) waits for `first` and `done`, sends the head,
settles and sends the last bytes. Between them there is no queue: an event goes from `receive` to
the caller's transport in one call.

    ending        who                                   caller gets
    complete      terminal event, nothing missing       settle, then [DONE] / message_stop
    an error      routes, deadlines, the stream itself  a status before the first byte, else an event
    CallerLeft    the watch: transport gone, or stalled nothing; the handler decides abort or drain
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from gateway.billing import Bill
from gateway.config import Provider, Server
from gateway.dialects.base import CallerDialect, Pipeline, ReplyContext
from gateway.dialects.replay import ReplayedReply, looks_like_json
from gateway.errors import GatewayError, InternalError, UpstreamError, UpstreamTimeout
from gateway.forwarder import Attempt
from gateway.routing import Candidate, try_routes
from gateway.sink import Sink
from gateway.state import Call
from gateway.tasks import spawn

log = logging.getLogger("gateway.relay")


class CallerLeft(Exception):
    """The caller closed its connection, or took no bytes for `stall_seconds`."""


LINGER_SECONDS: Final = 1.0
"""After the terminal event: how long the upstream's end is waited for, to keep the connection."""
MAX_PENDING_BYTES: Final = 64 << 10
"""What may gather while the head waits for the hold's row to be committed."""

_NEVER: Final = float("inf")


class Outgoing(Protocol):
    """What is sent to each route tried."""

    def write_payload(self, candidate: Candidate) -> bytes: ...

    def pick_headers(self, candidate: Candidate) -> Mapping[str, str]: ...


class Relay:
    """The state that both sides of one stream share. Times are those of the event loop's clock."""

    def __init__(
        self,
        *,
        call: Call,
        bill: Bill,
        dialect: CallerDialect,
        context: ReplyContext,
        work: Outgoing,
        sink: Sink,
        server: Server,
    ) -> None:
        self._call = call
        self._bill = bill
        self._dialect = dialect
        self._context = context
        self._work = work
        self._sink = sink
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.first: asyncio.Future[None] = self._loop.create_future()
        """Done when there is an event to send, or the stream ended without one."""
        self.done: asyncio.Future[None] = self._loop.create_future()
        """Done when the stream ended; `ending` says how."""
        self.ending: Exception | None = None
        """After `done`: None when complete, else a GatewayError or CallerLeft."""
        self.pipeline: Pipeline | None = None
        self.attempt = Attempt()
        self.provider: Provider | None = None
        """Of the route under way or tried last."""
        self._candidate: Candidate | None = None
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._flowing = asyncio.Event()
        self._over = False
        """Whether `run` has ended, and if by a failure, which."""
        self._failure: GatewayError | None = None
        self._discarding = False
        self._answered = False
        self._sniffed = False
        self._stalled_at: float | None = None
        self._due = self._total_due = _NEVER
        self._comment_due = self._loop.time() + server.comment_seconds

    # The caller's side

    @property
    def begun(self) -> bool:
        """Whether there is an event for the caller: the head may be sent."""
        return self.pipeline is not None and self.pipeline.begun

    @property
    def mid_event(self) -> bool:
        return self.pipeline is not None and self.pipeline.mid_event

    async def open_sink(self) -> None:
        """Send the head, once the hold's row is committed. Raises LedgerUnavailable."""
        if not self._sink.opened:
            await self._bill.wait_admitted()
            if not self._answered:
                await self._sink.open()

    def close_sink(self) -> None:
        """The caller is answered otherwise: no head may follow."""
        self._answered = True

    def flow(self) -> None:
        """Send what has gathered; from here on events go straight to the caller."""
        if self._pending:
            self._sink.send(b"".join(self._pending))
            self._pending.clear()
        self._flowing.set()

    def drain(self, seconds: float | None) -> None:
        """The caller is gone: read on without it, to the end or for `seconds`; `done` is anew.

        The sink must be aborted before, so that nothing waits for the caller any more.
        """
        self._discarding = True
        self._stalled_at = None
        self._flowing.set()
        self.done = self._loop.create_future()
        self.ending = None
        if self._over:
            self.end(self._failure)
        if seconds is not None:
            self._total_due = self._loop.time() + seconds

    def end(self, ending: Exception | None) -> None:
        """The stream is over; the first call counts."""
        if not self.done.done():
            self.ending = ending
            self.done.set_result(None)
            if ending is None and self._candidate is not None:
                self._candidate.lane.note_success()
        if not self.first.done():
            self.first.set_result(None)

    def tick(self, now: float) -> None:
        """See `Watched`."""
        if self.done.done():
            return
        if self._sink.closed and not self._discarding:
            self.end(CallerLeft())
        elif self._stalled_at is not None:
            if now - self._stalled_at >= self._server.stall_seconds:
                self.end(CallerLeft())
        elif now >= min(self._due, self._total_due):
            self._end_late()
        elif now >= self._comment_due and not self._discarding:
            self._comment_due = now + self._server.comment_seconds
            spawn(self._send_comment(), name="comment")

    def stop(self, error: GatewayError) -> None:
        """See `Watched`."""
        self.end(error)

    def _end_late(self) -> None:
        if self._candidate is not None and not self._discarding:
            self._candidate.lane.note_failure()
        self.end(UpstreamTimeout("The upstream provider did not answer in time."))

    async def _send_comment(self) -> None:
        try:
            await self.open_sink()
        except (GatewayError, ConnectionError):
            return  # whoever serves the request meets the same and deals with it
        if self._sink.opened and not self.mid_event and not self.done.done():
            self._sink.send(self._dialect.keep_alive)

    # The upstream's side

    async def run(self, candidates: Sequence[Candidate]) -> None:
        """Try the routes and deliver the first that answers. Never raises: `ending` tells."""
        try:
            await try_routes(candidates, self._run_one)
        except GatewayError as error:
            self._failure = error
        except Exception:
            log.exception("%s: the relay failed", self._call.request_id)
            self._failure = InternalError()
        self._over = True
        if self._failure is not None:
            self.end(self._failure)

    async def _run_one(self, candidate: Candidate) -> None:
        lane, exchange = candidate.lane, candidate.exchange
        self._candidate = candidate
        self.provider = provider = lane.provider
        self._call.attempts += 1
        self._call.provider = provider.name
        self.attempt = Attempt(on_connect=self._await_first_byte)
        self._due = _NEVER  # the forwarder minds the time to connect
        self._total_due = self._loop.time() + provider.total_timeout
        payload, headers = self._work.write_payload(candidate), self._work.pick_headers(candidate)
        answer = await lane.forwarder.open(exchange, payload, headers, self.attempt)
        self.pipeline = exchange.open_pipeline(self._context)
        try:
            await answer.deliver(self)
            self._end_source()
        except UpstreamError as error:
            error.next_route = False  # it had answered: the work was begun
            raise
        finally:
            answer.close()

    def _await_first_byte(self) -> None:
        assert self.provider is not None
        self._due = self._loop.time() + self.provider.first_byte_timeout

    def receive(self, data: bytes) -> bool:
        """See `Receiver`: bytes in, events out, in one go."""
        if not self._sniffed:
            self._sniff(data)
        pipeline = self.pipeline
        assert pipeline is not None
        if pipeline.complete:
            return True  # what follows the terminal event is read over
        proceed = self._pass_on(pipeline, pipeline.feed(data))
        self._note_end(pipeline)
        return proceed

    async def ready(self) -> None:
        """See `Receiver`: wait for the head to be sent, then for the caller to take its bytes."""
        await self._flowing.wait()
        if self._discarding:
            return
        self._stalled_at = self._loop.time()
        try:
            await self._sink.ready()
        except ConnectionError:
            if not self._discarding:
                self.end(CallerLeft())  # whether to read on is for the caller's side to say
        finally:
            self._stalled_at = None
            self._note_progress()

    def _pass_on(self, pipeline: Pipeline, out: bytes) -> bool:
        self._note_progress()
        if not out or self._discarding or self.done.done():
            return True
        self._comment_due = self._loop.time() + self._server.comment_seconds
        if self._flowing.is_set():
            return self._sink.send(out)
        if not pipeline.begun:
            return True  # comments before the first event: the gateway sends its own
        self._pending.append(out)
        self._pending_bytes += len(out)
        if not self.first.done():
            self.first.set_result(None)
        return self._pending_bytes < MAX_PENDING_BYTES

    def _note_progress(self) -> None:
        assert self.provider is not None
        self._due = self._loop.time() + self.provider.idle_timeout

    def _sniff(self, data: bytes) -> None:
        """An upstream that ignores `stream` answers with one JSON object."""
        assert self.pipeline is not None
        assert self._candidate is not None
        self._sniffed = bool(data.strip())
        if looks_like_json(data):
            self.pipeline = ReplayedReply(self.pipeline, self._candidate.exchange.replay_reply)

    def _end_source(self) -> None:
        """The upstream's body ended cleanly: is anything missing?"""
        pipeline = self.pipeline
        assert pipeline is not None
        if pipeline.complete:
            return
        self._pass_on(pipeline, pipeline.end())
        self._note_end(pipeline)
        if not pipeline.complete:
            raise UpstreamError("The upstream provider's stream broke off.")

    def _note_end(self, pipeline: Pipeline) -> None:
        if pipeline.failure is not None:
            raise pipeline.failure
        if pipeline.complete:
            self.end(None)
