"""The conclusion of a completion: the verdict is carried out, the charge first, then the last bytes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import assert_never

from gateway.api.admission import Completion
from gateway.api.lifecycle import Charge, Last, Verdict, lose_charge
from gateway.api.sink import Sink
from gateway.dialects.base import Pipeline
from gateway.errors import STOPPED, GatewayError, InternalError, Overloaded, drop_frames


async def conclude(
    work: Completion,
    sink: Sink,
    pipeline: Pipeline | None,
    verdict: Verdict,
    error: GatewayError | None,
) -> None:
    """Charge what is owed and wait for the commit, then send the last bytes.

    Raises the error of a failure where no head was sent: it becomes a status.
    """
    if verdict.last is Last.REPLY:
        work.call.note_first_byte()
    settled = settle(work, pipeline, verdict, error)
    if settled is not None and verdict.last is not Last.NOTHING:
        try:
            await settled
        except GatewayError as failure:
            drop_frames(failure)
            verdict = lose_charge(verdict, failure.status, stream=work.request.stream)
            if verdict.charge is Charge.NOTHING:
                error = failure  # another one might say that the reply was charged
                work.bill.note_withdrawal(verdict.outcome, failure.status)
            error = error or failure
    match verdict.last:
        case Last.REPLY:
            assert pipeline is not None
            sink.end(pipeline.finish())
        case Last.ERROR:
            assert error is not None
            _send_error(work, sink, pipeline, error)
        case Last.NOTHING:
            sink.abort()
        case _:
            assert_never(verdict.last)


def conclude_at_once(
    work: Completion, sink: Sink, pipeline: Pipeline | None, verdict: Verdict | None
) -> None:
    """Conclude in a task that is cancelled: nothing is awaited, so the charge is only queued.

    `verdict` is None where the settlement was queued before.
    """
    error = Overloaded(STOPPED)
    if verdict is not None:
        settle(work, pipeline, verdict, error)
    if sink.opened and not sink.lost and not is_mid_event(pipeline):
        sink.send(_render(work, pipeline, error))


def is_mid_event(pipeline: Pipeline | None) -> bool:
    """Return whether an event is half sent, so that nothing may be put behind it."""
    return pipeline is not None and pipeline.mid_event


def settle(
    work: Completion, pipeline: Pipeline | None, verdict: Verdict, error: GatewayError | None
) -> Awaitable[None] | None:
    """Queue the charge; return None if there is none to wait for."""
    status = verdict.status
    if status is None:
        status = InternalError.status if error is None else error.status
    match verdict.charge:
        case Charge.NOTHING:
            work.bill.void(verdict.outcome, status)
            return None
        case Charge.EXPECTED:
            delivered = None if pipeline is None else pipeline.measure()
            return work.bill.settle_expected(verdict.outcome, status, delivered)
        case Charge.USAGE:
            assert pipeline is not None
            return work.bill.settle(verdict.outcome, status, pipeline.measure())
        case _:
            assert_never(verdict.charge)


def _send_error(
    work: Completion, sink: Sink, pipeline: Pipeline | None, error: GatewayError
) -> None:
    """Send one error event, or cut a half-sent one; raise the error where no head was sent."""
    if not sink.opened:
        raise error
    if is_mid_event(pipeline):
        sink.abort()
    else:
        sink.end(_render(work, pipeline, error))


def _render(work: Completion, pipeline: Pipeline | None, error: GatewayError) -> bytes:
    position = None if pipeline is None else pipeline.position
    call = work.call
    return call.dialect.render_error_event(error, call.request_id, position, work.headers)
