"""The driver of one completion: the hold in force, routes, bytes, deadlines, the charge, last bytes.

One task does it all. While it waits in `Delivery.run`, the provider's bytes are pushed through the
delivery to the caller's transport in the same call; there is no queue in between. Deadlines and
callers that leave are noticed by the ticker, which makes that wait fail. `lifecycle` decides what
an ending means and who pays for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

from gateway.api.admission import Completion, Prepared
from gateway.api.conclusion import conclude, conclude_at_once, is_mid_event, settle
from gateway.api.delivery import Delivery
from gateway.api.lifecycle import (
    UNCONCLUDED,
    Ending,
    Leaving,
    Lifecycle,
    Phase,
    Verdict,
    find_ending,
)
from gateway.api.observations import note_upstream_call
from gateway.api.sink import Sink
from gateway.dialects.base import Pipeline
from gateway.errors import GatewayError, InternalError, drop_frames
from gateway.upstream.attempt import Attempt
from gateway.upstream.routing import Candidate, try_routes

log = logging.getLogger("gateway.relay")

RAISE_SECONDS: Final = 1.0
"""How often the hold of a stream is raised to what it has used."""
USAGE_SECONDS: Final = 2.0
"""How long to wait for the usage if the caller leaves after the finish reason."""


class CallerLeft(Exception):
    """The caller is gone and the upstream is not read on. Not the provider's fault."""


@dataclass(slots=True, eq=False, repr=False)
class Relay:
    """Serves one completion; `Timed` while it is in flight."""

    _work: Completion
    _sink: Sink
    _life: Lifecycle = field(default_factory=Lifecycle)
    _candidate: Candidate = field(init=False)
    """The route that is tried, or was last."""
    _confirmed: bool = False
    """The hold is in force. Before, nothing is sent: neither to a provider nor to the caller."""
    _stopped: Exception | None = None
    """The error that `stop` was called with before there was an attempt."""
    _attempt: Attempt | None = None
    """Under way: None as soon as its connection may serve another request."""
    _delivery: Delivery | None = None
    """From the answer of a provider on."""
    _read_until: float = math.inf
    """When a reply that is read on for its usage alone is given up."""
    _raise_due: float = 0.0

    def __post_init__(self) -> None:
        self._candidate = self._work.candidates[0]

    async def run(self) -> None:
        """Serve the completion. Raises GatewayError where no head was sent.

        A request that the ledger does not confirm has no ending: it was never admitted.
        """
        ticker = self._work.call.gateway.ticker
        ticker.add(self)
        try:
            await self._work.bill.confirm()
            self._confirmed = True
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
            # the next start. After a settlement this is a no-op.
            settle(self._work, self._pipeline, UNCONCLUDED, None)
            if not self._sink.opened:
                raise
            log.exception("%s: the stream could not be ended", self._work.call.request_id)
            self._sink.abort()
        finally:
            ticker.remove(self)
            self._sink.close()
            self._delivery = None  # it knows `_leave`: a cycle, which would keep the bodies

    @property
    def _pipeline(self) -> Pipeline | None:
        return None if self._delivery is None else self._delivery.pipeline

    async def _read_upstream(self) -> tuple[Ending, GatewayError | None]:
        """Try the routes and pass on what the first that works sends."""
        error: GatewayError | None = None
        try:
            await try_routes(self._work.candidates, self._try, self._work.call.note_failure)
        except CallerLeft as left:
            drop_frames(left)
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
            if self._delivery is not None:
                await self._delivery.begin()
        except GatewayError as failure:
            error = failure
        if error is not None:
            drop_frames(error)  # this one is among them
        return find_ending(error), error

    async def _try(self, candidate: Candidate) -> None:
        """Send the request by one route and pass on the reply. Raises CallerLeft, GatewayError."""
        work, life = self._work, self._life
        if life.caller_gone:
            raise CallerLeft
        if self._stopped is not None:
            raise self._stopped
        self._candidate, provider = candidate, candidate.provider
        work.call.attempts += 1
        work.call.provider = provider.name
        # Before the first wait: a caller that leaves in it must find something to end.
        self._attempt = Attempt(
            provider.config,
            on_sent=partial(life.advance, Phase.SENT),
            on_refused=partial(life.advance, Phase.ADMITTED),
            is_wanted=lambda: not life.caller_gone,
            affinity=work.affinity,
        )
        try:
            await self._send(candidate, await work.prepare(candidate), self._attempt)
        finally:
            self._attempt = None

    async def _send(self, candidate: Candidate, prepared: Prepared, attempt: Attempt) -> None:
        """Send the request and pass on the reply; the result is counted for operators."""
        work, life = self._work, self._life
        headers = work.pick_headers(candidate)
        began = time.monotonic()
        try:
            answer = await candidate.provider.forwarder.open(
                candidate.exchange, prepared.data, headers, attempt
            )
            life.advance(Phase.ANSWERED)
            self._delivery = Delivery(
                work, self._sink, life, candidate, answer, prepared.context, self._leave
            )
            await self._delivery.run()
        except BaseException as error:
            note_upstream_call(work.call, candidate, error)
            raise
        else:
            note_upstream_call(work.call, candidate, None)
        finally:
            work.call.waited_seconds += time.monotonic() - began

    def tick(self, now: float) -> None:
        """See `Timed`: notice a caller that left, and deadlines."""
        life, delivery = self._life, self._delivery
        if life.phase is Phase.ENDED:
            return
        if not life.caller_gone:
            if self._confirmed:  # a comment brings the head, which no refusal could follow
                self._sink.tick(now, mid_event=is_mid_event(self._pipeline))
            if self._sink.lost:
                self._leave()
        if delivery is not None and self._work.request.stream and now >= self._raise_due:
            self._raise_due = now + RAISE_SECONDS
            delivery.raise_hold()
        if self._attempt is not None:
            if now >= self._read_until:
                self._attempt.fail(CallerLeft())
            self._attempt.tick(now)
            if delivery is not None:
                delivery.tick(is_over=self._attempt.failed)

    def stop(self, error: Exception) -> None:
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
                self.stop(CallerLeft())
            case _:
                assert_never(leaving)

    def _end(self, ending: Ending) -> Verdict:
        if self._sink.lost:  # since the last tick
            self._leave()
        pipeline = self._pipeline
        delivered = pipeline is not None and pipeline.delivered
        return self._life.end(ending, delivered=delivered, head_sent=self._sink.opened)
