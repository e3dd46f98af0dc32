"""The driver of one completion: routes, bytes, deadlines, the charge, the last bytes.

One task does it all. While it waits in `Answer.deliver`, the provider's bytes are pushed into
`receive` and from there to the caller's transport in the same call; there is no queue in between.
Deadlines and callers that leave are noticed by the ticker, which makes that wait fail. `lifecycle`
decides what an ending means and who pays for it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

from gateway.api.admission import Completion
from gateway.api.conclusion import conclude, conclude_at_once, is_mid_event, settle
from gateway.api.lifecycle import (
    UNCONCLUDED,
    Ending,
    Leaving,
    Lifecycle,
    Phase,
    Verdict,
    find_ending,
)
from gateway.api.sink import Sink
from gateway.dialects import Exchange, Pipeline, ReplyContext, looks_like_json
from gateway.errors import GatewayError, InternalError, UpstreamError
from gateway.upstream import Answer, Attempt, Candidate, Ticker, try_routes

log = logging.getLogger("gateway.relay")

RAISE_SECONDS: Final = 1.0
"""How often the hold of a stream is raised to what it has used."""
USAGE_SECONDS: Final = 2.0
"""How long the usage is waited for when the caller leaves behind the finish reason."""


class CallerLeft(Exception):
    """The caller is gone and the upstream is not read on. Not the provider's fault."""


@dataclass(slots=True, eq=False, repr=False)
class Relay:
    """A `Receiver` of the provider's bytes, and `Timed` while it is in flight."""

    _work: Completion
    _sink: Sink
    _ticker: Ticker
    _life: Lifecycle = field(default_factory=Lifecycle)
    _candidate: Candidate | None = None
    _alive: bool = False
    _attempt: Attempt | None = None
    """Under way: None as soon as its connection may serve another request."""
    _answer: Answer | None = None
    _context: ReplyContext | None = None
    _pipeline: Pipeline | None = None
    _sniffed: bool = False
    _read_until: float | None = None
    _raise_due: float = 0.0

    async def run(self) -> None:
        """Serve the completion. Raises GatewayError where no head was sent."""
        self._ticker.add(self)
        try:
            ending, error = await self._read_upstream()
            await conclude(self._work, self._sink, self._pipeline, self._end(ending), error)
        except asyncio.CancelledError:
            is_over = self._life.phase is Phase.ENDED
            verdict = None if is_over else self._end(Ending.SHUTDOWN)
            conclude_at_once(self._work, self._sink, self._pipeline, verdict)
            raise
        except GatewayError:
            raise
        except Exception:
            # Before the error goes on: a request without a settlement would hold its money until
            # the next start. Behind a settlement this changes nothing.
            settle(self._work, self._pipeline, UNCONCLUDED, None)
            if not self._sink.opened:
                raise
            log.exception("%s: the stream could not be ended", self._work.call.request_id)
            self._sink.abort()
        finally:
            self._ticker.remove(self)
            self._sink.close()

    async def _read_upstream(self) -> tuple[Ending, GatewayError | None]:
        """Try the routes and pass on what the first that works sends."""
        error: GatewayError | None = None
        try:
            await try_routes(self._work.candidates, self._try)
        except CallerLeft:
            return Ending.ABANDONED, None
        except GatewayError as failure:
            error = failure
        except Exception:
            log.exception("%s: the relay failed", self._work.call.request_id)
            error = InternalError()
        try:
            # Events that came in one read with the end of the body, or with its failure, have not
            # been sent: nobody called `ready` in between. They go out before the ending is chosen,
            # because it depends on whether they were.
            await self._begin()
        except GatewayError as failure:
            error = failure
        return find_ending(error), error

    async def _try(self, candidate: Candidate) -> None:
        work, provider = self._work, candidate.provider
        if self._life.caller_gone:
            raise CallerLeft
        self._candidate = candidate
        work.call.attempts += 1
        work.call.provider = provider.name
        prepared, headers = work.prepare(candidate), work.pick_headers(candidate)
        self._attempt = Attempt(
            provider.config,
            on_sent=partial(self._life.advance, Phase.SENT),
            on_refused=partial(self._life.advance, Phase.ADMITTED),
        )
        try:
            answer = await provider.forwarder.open(
                candidate.exchange, prepared.data, headers, self._attempt
            )
            await self._pass(candidate.exchange, answer, prepared.context)
        except GatewayError as error:
            # The provider speaks of its own model name.
            error.replace_name(candidate.target.upstream_model, work.model.id)
            raise
        finally:
            self._attempt = None

    async def _pass(self, exchange: Exchange, answer: Answer, context: ReplyContext) -> None:
        """Pass on the body of an answer to its end."""
        work = self._work
        self._life.advance(Phase.ANSWERED)
        self._alive = False
        self._answer = answer
        open_body = exchange.open_stream if work.request.stream else exchange.open_reply
        self._pipeline = open_body(context)
        self._context = context
        try:
            await answer.deliver(self)
            self._end_body(self._pipeline)
        except UpstreamError as error:
            error.next_route = False  # the provider had begun its work
            raise
        finally:
            answer.close()

    def receive(self, data: bytes) -> bool:
        """See `Receiver`. The hot path of streams: events go out in this call."""
        pipeline = self._pipeline
        assert pipeline is not None
        if not self._sniffed:
            pipeline = self._sniff(pipeline, data)
        out = pipeline.feed(data)
        if not self._alive and (pipeline.begun or not self._work.request.stream):
            self._alive = True  # the breakers need not wait for the end of a long reply
            assert self._candidate is not None
            self._candidate.note_alive()
        proceed = self._send(pipeline, out) if out else True
        if pipeline.failure is not None:
            raise pipeline.failure
        if pipeline.complete:
            assert self._answer is not None
            self._answer.stop()
        return proceed

    async def ready(self) -> None:
        """See `Receiver`: send the head, or wait until the caller has taken its bytes."""
        if self._life.caller_gone:
            return
        if self._life.phase is not Phase.STREAMING:
            await self._begin()
            return
        try:
            await self._sink.ready()
        except ConnectionError:
            self._leave()

    def _sniff(self, pipeline: Pipeline, data: bytes) -> Pipeline:
        """Replace the pipeline if a provider answers a request for a stream with a JSON object."""
        self._sniffed = bool(data.strip())
        if self._work.request.stream and looks_like_json(data):
            assert self._candidate is not None
            assert self._context is not None
            pipeline = self._pipeline = self._candidate.exchange.open_replay(self._context)
        return pipeline

    def _end_body(self, pipeline: Pipeline) -> None:
        """Note that the body ended cleanly. Raises UpstreamError if something is missing."""
        if pipeline.complete:
            return
        if out := pipeline.end():
            self._send(pipeline, out)
        if pipeline.failure is not None:
            raise pipeline.failure
        if not pipeline.complete:
            raise UpstreamError("The upstream provider's stream broke off.")

    def _send(self, pipeline: Pipeline, out: bytes) -> bool:
        """Comments before the first event are dropped: the gateway sends its own."""
        if self._life.caller_gone or not pipeline.begun:
            return True
        return self._sink.send(out)

    async def _begin(self) -> None:
        """Send the head of a stream and the events that wait for it. Raises LedgerUnavailable."""
        if self._life.phase is not Phase.ANSWERED or self._life.caller_gone:
            return
        if self._pipeline is None or not self._pipeline.begun:
            return
        self._raise_hold()
        try:
            await self._sink.begin()
        except ConnectionError:
            self._leave()
        if not self._life.caller_gone:
            self._work.call.note_first_byte()
            self._life.advance(Phase.STREAMING)

    def _raise_hold(self) -> None:
        """Raise the hold to what the stream has used so far, so that others are refused in time."""
        if self._pipeline is not None:
            self._work.bill.raise_to(self._pipeline.measure())

    def tick(self, now: float) -> None:
        """See `Timed`: notice a caller that left, and deadlines."""
        if self._life.phase is Phase.ENDED:
            return
        if not self._life.caller_gone:
            self._sink.tick(now, mid_event=is_mid_event(self._pipeline))
            if self._sink.lost:
                self._leave()
        if self._work.request.stream and now >= self._raise_due:
            self._raise_due = now + RAISE_SECONDS
            if self._life.phase in (Phase.ANSWERED, Phase.STREAMING):
                self._raise_hold()
        if self._attempt is not None:
            if self._read_until is not None and now >= self._read_until:
                self._attempt.fail(CallerLeft())
            self._attempt.tick(now)

    def stop(self, error: GatewayError) -> None:
        """See `Timed`: the gateway waits no longer."""
        if self._attempt is not None:
            self._attempt.fail(error)

    def _leave(self) -> None:
        """Note that the caller is gone, and stop the upstream or read it on."""
        if self._life.caller_gone:
            return
        self._sink.abort()
        assert self._candidate is not None
        leaving = self._life.leave(
            drains=self._candidate.provider.config.on_disconnect == "drain",
            finished=self._pipeline is not None and self._pipeline.finished,
        )
        match leaving:
            case Leaving.READ_ON:
                pass
            case Leaving.READ_USAGE:
                self._read_until = asyncio.get_running_loop().time() + USAGE_SECONDS
            case Leaving.STOP:
                if self._attempt is not None:
                    self._attempt.fail(CallerLeft())
            case _:
                assert_never(leaving)

    def _end(self, ending: Ending) -> Verdict:
        delivered = self._pipeline is not None and self._pipeline.delivered
        return self._life.end(ending, delivered=delivered, head_sent=self._sink.opened)
