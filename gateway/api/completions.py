"""The driver of one completion: admission, the hold in force, routes, bytes, deadlines, the charge, last bytes.

One task does it all. While it waits in `Delivery.run`, the provider's bytes are pushed through the
delivery to the caller's transport in the same call; there is no queue in between. The ticker notices
deadlines and callers that leave, and makes `Delivery.run` fail. `lifecycle` decides what an ending means
and who pays for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

from aiohttp import web

from gateway.api import lifecycle
from gateway.api.admission import Completion, admit, parse, pick_headers
from gateway.api.bodies import read_body
from gateway.api.delivery import Delivery
from gateway.api.shares import count_reply
from gateway.api.sink import JsonReply, JsonSink, Sink, StreamSink, drain
from gateway.api.state import Call, note_upstream_call
from gateway.base.errors import STOPPED, GatewayError, InternalError, Overloaded, drop_frames
from gateway.base.money import format_amount
from gateway.dialects.wire.base import Pipeline
from gateway.upstream.attempt import Attempt
from gateway.upstream.routing import Candidate, try_routes


async def serve_completion(
    http: web.Request, call: Call, read: Callable[[web.Request, Call], Awaitable[bytes]] = read_body
) -> web.StreamResponse:
    """Serve a completion. Surfaces differ only in the caller's dialect and in how the body is read."""
    # The body gets no variable: a name would keep it in memory until the reply has left.
    request = await parse(call, call.dialect, await read(http, call))
    return await send_reply(http, await admit(http, call, request))


async def send_reply(http: web.Request, completion: Completion) -> web.StreamResponse:
    """Serve an admitted request."""
    call = completion.call
    if completion.request.stream:
        response = web.StreamResponse()
        stream = StreamSink(http, response, call, completion.bill.wait_admitted)
        await Relay(completion, stream).run()
        if unread_bytes := stream.unread_bytes:
            # Bytes that the caller has not read count against its account until it has read them or is
            # gone.
            count_reply(call, unread_bytes)
            with suppress(ConnectionError):
                await drain(http)
        return response
    sink = JsonSink()
    await Relay(completion, sink).run()
    # Streams have no such header: their head leaves before the cost is known.
    return JsonReply(call, sink.body, {"x-gateway-cost": format_amount(call.cost_nano)})


log = logging.getLogger("gateway.completions")

RAISE_SECONDS: Final = 1.0
"""How often a stream's hold is raised to the cost so far."""
USAGE_SECONDS: Final = 2.0
"""How long to wait for the usage if the caller leaves after the finish reason."""


class CallerLeft(Exception):
    """The caller is gone and the upstream is not read on. The provider is not to blame."""


@dataclass(slots=True, eq=False, repr=False)
class Relay:
    """Serves one completion; `Timed` while it is in flight."""

    _completion: Completion
    _sink: Sink
    _life: lifecycle.Lifecycle = field(default_factory=lifecycle.Lifecycle)
    _confirmed: bool = False
    """The hold is in force. Until then nothing is sent to a provider or to the caller."""
    _stopped: Exception | None = None
    """The error that `fail` was called with before there was an attempt."""
    _attempt: Attempt | None = None
    """The attempt under way; None as soon as its connection may serve another request."""
    _delivery: Delivery | None = None
    """The delivery of the reply; None until a provider answers."""
    _read_until: float = math.inf
    """When to give up a reply that is read on only for its usage, by the ticker's clock."""
    _raise_due: float = 0.0

    async def run(self) -> None:
        """Serve the completion. Raises GatewayError where no head was sent.

        If the ledger does not confirm the hold, the request was never admitted and has no ending.
        """
        ticker = self._completion.call.gateway.ticker
        # Added before the first await: a shutdown must find the request while its hold is being
        # confirmed.
        ticker.add(self)
        try:
            await self._completion.bill.confirm()
            self._confirmed = True
            ending, error = await self._read_upstream()
            await self.conclude(self._end(ending), error)
        # The loop ends, so an await here may never return: the charge is queued and not waited for.
        except asyncio.CancelledError:
            is_over = self._life.phase is lifecycle.Phase.ENDED
            self.conclude_at_once(None if is_over else self._end(lifecycle.Ending.SHUTDOWN))
            raise
        except GatewayError:
            raise
        except Exception:
            # Settled before the error goes on: a request without a settlement would hold its money until
            # the next start. A second settlement changes nothing.
            _ = self._completion.bill.settle(lifecycle.UNCONCLUDED, None, self._pipeline)
            if not self._sink.opened:
                raise
            log.exception("%s: the stream could not be ended", self._completion.call.request_id)
            self._sink.abort()
        finally:
            ticker.remove(self)
            # No comment or event may be sent after an error reply has been chosen.
            self._sink.close()
            self._delivery = None  # its `_leave` makes a cycle, which would keep the bodies

    @property
    def _pipeline(self) -> Pipeline | None:
        return None if self._delivery is None else self._delivery.pipeline

    async def _read_upstream(self) -> tuple[lifecycle.Ending, GatewayError | None]:
        """Try the routes and pass on the reply of the first that works."""
        completion, error = self._completion, None
        try:
            await try_routes(completion.candidates, self._try, completion.call.note_failure)
        except CallerLeft as left:
            drop_frames(left)
            return lifecycle.Ending.ABANDONED, None
        except GatewayError as failure:
            error = failure
        except Exception:
            log.exception("%s: the relay failed", completion.call.request_id)
            error = InternalError()
        try:
            # Events that came in one read with the end of the body, or with its failure, have not been
            # sent: nobody called `unblock` in between. They are sent before the ending is chosen,
            # because it depends on whether anything was delivered.
            if self._delivery is not None:
                await self._delivery.begin()
        except GatewayError as failure:
            error = failure
        if error is not None:
            drop_frames(error)  # this frame holds the error: a cycle
        return lifecycle.find_ending(error), error

    def _try(self, candidate: Candidate) -> Awaitable[None]:
        """Begin to send the request by one route. Raises CallerLeft, or the error given to `fail`."""
        completion, life = self._completion, self._life
        if life.caller_gone:
            raise CallerLeft
        # A shutdown between two routes finds no attempt to end, so it is remembered here.
        if self._stopped is not None:
            raise self._stopped
        provider = candidate.provider
        completion.call.attempts += 1
        completion.call.provider = provider.name
        completion.call.upstream_model = candidate.target.upstream_model
        # Made before the first await: if the caller leaves during it, there must be an attempt to end.
        attempt = self._attempt = Attempt(
            provider.config,
            completion.call.gateway.ticker.clock,
            on_sent=partial(life.advance, lifecycle.Phase.SENT),
            on_refused=partial(life.advance, lifecycle.Phase.ADMITTED),
            is_wanted=lambda: not life.caller_gone,
            path=candidate.paths[completion.request.stream],
            find_affinity=completion.find_affinity,
        )
        return self._send(candidate, attempt)

    async def _send(self, candidate: Candidate, attempt: Attempt) -> None:
        """Send the request and pass on the reply; the result is counted for operators."""
        completion, life, call = self._completion, self._life, self._completion.call
        prepared, names = completion.first, candidate.passed_headers
        loop = call.gateway.ticker.loop
        began = loop.time()
        try:
            if candidate is not completion.candidates[0]:
                prepared = await completion.prepare(candidate)
                began = loop.time()
            headers = pick_headers(completion.headers, names) if names else {}
            try:
                answer = await candidate.provider.forwarder.open(
                    candidate.exchange, prepared.data, headers, attempt
                )
                life.advance(lifecycle.Phase.ANSWERED)
                self._delivery = Delivery(
                    completion, self._sink, life, candidate, answer, prepared.context, self._leave
                )
                await self._delivery.run()
            except BaseException as error:
                # A cancelled request was sent, too, so it is counted.
                note_upstream_call(call, candidate, error)
                raise
            else:
                call.gateway.ledger.note_upstream_call(call.provider, call.upstream_model, None)
            finally:
                call.waited_seconds += loop.time() - began
        finally:
            self._attempt = None

    def tick(self) -> None:
        """See `Timed`: notice a caller that left, and deadlines."""
        life, delivery = self._life, self._delivery
        clock = self._completion.call.gateway.ticker.clock
        if life.phase is lifecycle.Phase.ENDED:
            return
        if not life.caller_gone:
            if self._confirmed:  # a comment sends the head, too: no refusal after it
                self._sink.tick(mid_event=self._mid_event)
            if self._sink.lost:
                self._leave()
        if (
            delivery is not None
            and self._completion.request.stream
            and clock.now >= self._raise_due
        ):
            # In between, the balance that other requests see is too high by the cost of a second.
            self._raise_due = clock.now + RAISE_SECONDS
            delivery.raise_hold()
        if self._attempt is not None:
            if clock.seconds >= self._read_until:
                self._attempt.fail(CallerLeft())
            self._attempt.tick()
            if delivery is not None:
                delivery.tick(is_over=self._attempt.error is not None)

    def fail(self, error: Exception) -> None:
        """See `Timed`: end the attempt with `error`, or let none begin."""
        if self._attempt is not None:
            self._attempt.fail(error)
        else:
            self._stopped = error

    def _leave(self) -> None:
        """Note that the caller is gone, and stop the upstream or read it on."""
        if self._life.caller_gone:
            return
        self._sink.abort()
        attempt, pipeline = self._attempt, self._pipeline
        leaving = self._life.leave(
            drains=attempt is not None and attempt.provider.on_disconnect == "drain",
            finished=pipeline is not None and pipeline.finished,
        )
        match leaving:
            case lifecycle.Leaving.READ_ON:
                pass
            case lifecycle.Leaving.READ_USAGE:
                # Only the usage is missing. With the provider's report no estimate is needed.
                self._read_until = self._completion.call.gateway.ticker.clock.soon + USAGE_SECONDS
            case lifecycle.Leaving.STOP:
                self.fail(CallerLeft())
            case _:
                assert_never(leaving)

    def _end(self, ending: lifecycle.Ending) -> lifecycle.Verdict:
        # The caller may have left since the last tick. Then it must be recorded as gone, and it pays by
        # the other half of the table.
        if self._sink.lost:
            self._leave()
        delivered = self._delivery is not None and self._delivery.pipeline.delivered
        return self._life.end(ending, delivered=delivered, head_sent=self._sink.opened)

    async def conclude(self, verdict: lifecycle.Verdict, error: GatewayError | None) -> None:
        """Charge what is owed and wait for the commit, then send the last bytes.

        Raises the error of a failure where no head was sent: it becomes a status.
        """
        completion, delivery = self._completion, self._delivery
        pipeline = None if delivery is None else delivery.pipeline
        # The time is part of the charge's row, so it is taken before the row is queued.
        if verdict.last is lifecycle.Last.REPLY:
            completion.call.note_first_byte()
        settled = completion.bill.settle(verdict, error, pipeline)
        if settled is not None and verdict.last is not lifecycle.Last.NOTHING:
            try:
                await settled
            except GatewayError as failure:
                drop_frames(failure)
                verdict = lifecycle.lose_charge(
                    verdict, failure.status, stream=completion.request.stream
                )
                if verdict.owed is lifecycle.Owed.NOTHING:
                    error = failure  # the other error might say that the reply was charged
                    completion.bill.note_withdrawal(verdict.outcome, failure.status)
                error = error or failure
        match verdict.last:
            case lifecycle.Last.REPLY:
                assert pipeline is not None
                # Sent only after the charge is committed: whoever has the end of a reply has paid for
                # it.
                self._sink.end(await self._finish(pipeline))
            case lifecycle.Last.ERROR:
                assert error is not None
                self._send_error(error)
            case lifecycle.Last.NOTHING:
                self._sink.abort()
                if error is None and pipeline is not None and pipeline.complete:
                    await self._finish(pipeline)  # its caller may come back for it
            case _:
                assert_never(verdict.last)

    async def _finish(self, pipeline: Pipeline) -> bytes:
        """Return the last bytes of a complete reply, which an extra may keep before they leave."""
        last = pipeline.finish()
        if self._completion.keep is not None:
            try:
                await self._completion.keep(last)
            # It is charged by now: a bug in an extra must not cost the caller its end.
            except Exception:
                log.exception("a reply could not be kept")
        return last

    def conclude_at_once(self, verdict: lifecycle.Verdict | None) -> None:
        """Conclude in a task that is cancelled: nothing is awaited, so the charge is only queued.

        `verdict` is None if the settlement is queued already.
        """
        error, sink = Overloaded(STOPPED), self._sink
        if verdict is not None:
            _ = self._completion.bill.settle(verdict, error, self._pipeline)
        if sink.opened and not sink.lost and not self._mid_event:
            sink.send(self._render(error))

    @property
    def _mid_event(self) -> bool:
        """Whether an event is half sent, so that nothing may be sent after it."""
        pipeline = self._pipeline
        return pipeline is not None and pipeline.mid_event

    def _send_error(self, error: GatewayError) -> None:
        """Send one error event, or cut a half-sent one; raise the error where no head was sent."""
        if not self._sink.opened:
            raise error
        if self._mid_event:
            # An event put into the middle of another would be read as a part of it.
            self._sink.abort()
        else:
            self._sink.end(self._render(error))

    def _render(self, error: GatewayError) -> bytes:
        completion, pipeline = self._completion, self._pipeline
        position = None if pipeline is None else pipeline.position
        call, headers = completion.call, completion.headers
        return call.dialect.render_error_event(error, call.request_id, position, headers)
