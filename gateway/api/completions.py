"""The driver of one completion: admission, hold, routes, bytes, deadlines, the charge, last bytes.

One task does it all. While it waits in `Forwarder.send`, the provider's bytes are pushed through the
delivery to the caller's transport in the same call; there is no queue in between. The ticker checks
deadlines and callers, and ends that wait with an error. `lifecycle` decides what an ending means and who
pays for it. The end of a complete reply, in order:

    Delivery.end            the provider's body is whole, so `Forwarder.send` returns
    Delivery.process_rest   what is left of it is read: the reply is complete, its usage known
    Bill.settle             the charge is queued, then committed
    Delivery.take_last      the last bytes for the caller, which leave now
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

from aiohttp import web

from gateway.api import lifecycle
from gateway.api.admission import Completion, admit, pick_headers
from gateway.api.bodies import count_reply, parse, read_body
from gateway.api.delivery import Delivery, JsonDelivery, StreamDelivery
from gateway.api.front import KeyedCall, tell
from gateway.api.lifecycle import CallerLeft
from gateway.api.sink import JsonReply, JsonSink, Sink, StreamReply, StreamSink, drain
from gateway.base.errors import (
    STOPPED,
    GatewayError,
    InternalError,
    Overloaded,
    UpstreamError,
    drop_frames,
)
from gateway.base.money import format_amount
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import ReplyContext
from gateway.upstream.attempt import Attempt
from gateway.upstream.routing import Route, try_routes


async def serve_completion(http: web.Request, call: KeyedCall) -> web.StreamResponse:
    """Serve a completion. Surfaces differ only in the caller's dialect."""
    # The body gets no variable: a name would keep it in memory until the reply has left.
    request = await parse(call, call.dialect, await read_body(http, call))
    return await send_reply(http, await admit(http, call, request))


async def send_reply(http: web.Request, completion: Completion) -> web.StreamResponse:
    """Serve an admitted request."""
    call = completion.call
    if completion.request.stream:
        response = StreamReply()
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
    assert call.settlement is not None
    cost = format_amount(call.settlement.cost_nano)
    return JsonReply(call, sink.body, {"x-gateway-cost": cost})


log = logging.getLogger("gateway.completions")

RAISE_SECONDS: Final = 1.0
"""Seconds between two raises of a stream's hold to the cost so far: in between, other requests see a balance
that is too high by what the stream cost since."""
USAGE_SECONDS: Final = 2.0
"""Seconds to wait for the usage if the caller leaves after the finish reason: providers send it next, and
with their report no estimate is needed."""


@dataclass(slots=True, eq=False, repr=False)
class Relay:
    """Serves one completion. It is `Timed`: the ticker calls it while it is in flight."""

    _completion: Completion
    _sink: Sink
    life: lifecycle.Lifecycle = field(default_factory=lifecycle.Lifecycle)
    _attempt: Attempt | None = None
    """The attempt under way; None as soon as its connection may serve another request."""
    _delivery: Delivery | None = None
    """The delivery of the reply; None until a provider answers."""
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
            self.life.confirmed = True
            error = await self._read_upstream()
            await self.conclude(self._judge(error), error)
        except GatewayError:
            raise  # it becomes a status
        except BaseException as fault:
            self._conclude_at_once(fault)
            if not (self._sink.opened and isinstance(fault, Exception)):
                raise
        finally:
            ticker.remove(self)
            # No comment or event may be sent after an error reply has been chosen.
            self._sink.close()

    async def _read_upstream(self) -> Exception | None:
        """Try the routes and pass on the reply of the first that works; return what ended it early."""
        completion, error = self._completion, None
        try:
            await try_routes(completion.routes, self._try, completion.call.note_failure)
        except (GatewayError, CallerLeft) as failure:
            error = failure
        except Exception:
            log.exception("%s: the relay failed", completion.call.request_id)
            error = InternalError()
        try:
            # Events that came in one read with the end of the body, or with its failure, have not been
            # sent: nobody called `unblock` in between. They are sent before the ending is chosen,
            # because it depends on whether anything was delivered.
            if isinstance(self._delivery, StreamDelivery):
                await self._delivery.begin()
        except GatewayError as failure:
            error = failure
        if error is not None:
            drop_frames(error)  # this frame holds the error: a cycle
        return error

    async def _try(self, route: Route) -> None:
        """Send the request by one route and pass on the reply. Raises CallerLeft, or what ended it."""
        completion, life, call = self._completion, self.life, self._completion.call
        if self._sink.lost:  # perhaps while the body waited for its turn
            raise CallerLeft
        life.check()  # a shutdown between two routes
        provider, prepared = route.provider, completion.first
        completion.bill.attempts += 1
        call.provider, call.upstream_model = provider.name, route.target.upstream_model
        if route is not completion.routes[0]:
            prepared = await completion.prepare(route)
            life.check()
        ticker, names = call.gateway.ticker, route.passed_headers
        self._attempt = attempt = Attempt(
            provider=provider.config,
            clock=ticker.clock,
            exchange=route.exchange,
            body=prepared.data,
            open_reply=partial(self._open, route, prepared.context),
            headers=pick_headers(completion.headers, names) if names else {},
            life=life,
            path=route.paths[completion.request.stream],
            find_affinity=completion.find_affinity,
        )
        began = ticker.loop.time()
        try:
            await provider.forwarder.send(attempt)
            assert self._delivery is not None
            await self._delivery.process_rest()
            tell(call.gateway.attempt_listeners, call, route, None)
        except BaseException as failure:  # a cancelled request was sent, too, so it is counted
            if self._delivery is not None and isinstance(failure, UpstreamError):
                failure.next_route = False  # the provider had begun its work
            tell(call.gateway.attempt_listeners, call, route, failure)
            raise
        finally:
            call.waited_seconds += ticker.loop.time() - began
            self._attempt = None

    def _open(self, route: Route, context: ReplyContext, content_type: str) -> Delivery:
        """Return what takes the body of the provider's reply; called when its head was read."""
        self.life.advance(lifecycle.Phase.ANSWERED)
        completion, life, exchange = self._completion, self.life, route.exchange
        is_audio = exchange.upstream.makes_audio
        if is_audio:
            self._sink.set_type(content_type)
        if not (content_type if is_audio else completion.request.stream):
            self._delivery = JsonDelivery(completion, life, route, context)
        else:
            pipeline = exchange.open_stream(context)
            self._delivery = StreamDelivery(
                completion, life, route, context, self._sink, pipeline, not is_audio
            )
        return self._delivery

    def tick(self) -> None:
        """See `Timed`: notice a caller that left, and deadlines."""
        life, delivery, attempt = self.life, self._delivery, self._attempt
        clock = self._completion.call.gateway.ticker.clock
        if life.phase is lifecycle.Phase.ENDED:
            return
        if not life.caller_gone:
            if life.confirmed:  # a comment sends the head, too: no refusal after it
                self._sink.tick(mid_event=self._is_mid_event)
            if self._sink.lost:
                self._leave()
        if isinstance(delivery, StreamDelivery) and clock.now >= self._raise_due:
            self._raise_due = clock.now + RAISE_SECONDS
            delivery.raise_hold()
        if attempt is not None:
            if clock.seconds >= life.read_until:
                life.stop(CallerLeft())
            attempt.tick()
            if delivery is not None:
                delivery.tick()

    def _leave(self) -> None:
        """Note that the caller is gone, and stop the upstream or read it on."""
        life, attempt, pipeline = self.life, self._attempt, self._pipeline
        if life.caller_gone:
            return
        self._sink.abort()
        drains = attempt is not None and attempt.provider.on_disconnect == "drain"
        match life.leave(drains=drains, finished=pipeline is not None and pipeline.finished):
            case lifecycle.Leaving.READ_ON:
                pass
            case lifecycle.Leaving.READ_USAGE:
                life.read_until = (
                    self._completion.call.gateway.ticker.clock.next_seconds + USAGE_SECONDS
                )
            case lifecycle.Leaving.STOP:
                life.stop(CallerLeft())
            case leaving:
                assert_never(leaving)

    def _judge(self, error: Exception | None) -> lifecycle.Verdict:
        """End the life; return the verdict on it. `error` is what ended it early."""
        # The caller may have left since the last tick. Then it must be recorded as gone, and it pays by
        # the other half of the table.
        if self._sink.lost:
            self._leave()
        delivered = self._delivery is not None and self._delivery.delivered
        return self.life.end(error, head_sent=self._sink.opened, delivered=delivered)

    @property
    def _pipeline(self) -> Pipeline | None:
        """The stream under way; None until a provider answers, and where the caller gets no stream."""
        return self._delivery.pipeline if isinstance(self._delivery, StreamDelivery) else None

    @property
    def _is_mid_event(self) -> bool:
        """An event is half sent, so nothing may be sent after it."""
        return self._pipeline is not None and self._pipeline.mid_event

    async def conclude(self, verdict: lifecycle.Verdict, error: Exception | None) -> None:
        """Charge what is owed and wait for the commit, then send the last bytes.

        Raises the error of a failure where no head was sent: it becomes a status.
        """
        completion, delivery, keep = self._completion, self._delivery, self._completion.keep
        # The time is part of the charge's row, so it is taken before the row is queued.
        if verdict.last is lifecycle.Last.REPLY:
            completion.bill.note_first_byte()
        settled = completion.bill.settle(verdict, None if delivery is None else delivery.measure)
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
                assert delivery is not None
                # Sent after the commit alone: whoever has the end of a reply has paid for it.
                last = delivery.take_last()
                if keep is not None:
                    await self._keep(keep, last)
                self._sink.end(last)
            case lifecycle.Last.ERROR:
                assert isinstance(error, GatewayError)
                self._send_error(error)
            case lifecycle.Last.NOTHING:
                self._sink.abort()
                is_whole = error is None and delivery is not None and delivery.complete
                if keep is not None and delivery is not None and is_whole:
                    await self._keep(keep, delivery.take_last())  # its caller may come back for it
            case _:
                assert_never(verdict.last)

    async def _keep(self, keep: Callable[[bytes], Awaitable[None]], last: bytes) -> None:
        try:
            await keep(last)
        # It is charged by now: a bug in an extra must not cost the caller its end.
        except Exception:
            log.exception("a reply could not be kept")

    def _conclude_at_once(self, fault: BaseException) -> None:
        """Conclude in a task that is cancelled, or after a fault of our own. A charge is only queued.

        Nothing is awaited: the loop ends, so an await may never return.
        """
        completion, sink = self._completion, self._sink
        is_stopped = isinstance(fault, CancelledError)
        # A request without a settlement would hold its money until the next start.
        if completion.call.settlement is None:
            is_known = is_stopped and self.life.phase is not lifecycle.Phase.ENDED
            verdict = self._judge(Overloaded(STOPPED)) if is_known else lifecycle.UNCONCLUDED
            measure = None if self._delivery is None else self._delivery.measure
            _ = completion.bill.settle(verdict, measure)
        if not sink.opened:
            return
        if not is_stopped:
            request_id = completion.call.request_id
            log.error("%s: the stream could not be ended", request_id, exc_info=fault)
            sink.abort()
        elif not (sink.lost or self._is_mid_event):
            sink.send(self._render(Overloaded(STOPPED)))

    def _send_error(self, error: GatewayError) -> None:
        """Send one error event, or cut a half-sent one; raise the error where no head was sent."""
        if not self._sink.opened:
            raise error
        if self._is_mid_event:
            # An event put into the middle of another would be read as a part of it.
            self._sink.abort()
        else:
            self._sink.end(self._render(error))

    def _render(self, error: GatewayError) -> bytes:
        completion, pipeline = self._completion, self._pipeline
        position = None if pipeline is None else pipeline.position
        call, headers = completion.call, completion.headers
        return call.dialect.render_error_event(error, call.request_id, position, headers)
