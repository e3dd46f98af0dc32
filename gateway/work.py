"""One admitted request: all that serving it takes, and what its failures are recorded as."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.billing import Bill
from gateway.config import Model
from gateway.dialects.base import CallerDialect, CompletionRequest, Exchange, ReplyContext
from gateway.errors import (
    BadRequest,
    GatewayError,
    InternalError,
    LedgerUnavailable,
    Overloaded,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.ledger.base import Outcome
from gateway.routing import Candidate
from gateway.state import Call, Gateway

CALLER_CLOSED_STATUS: Final = 499
"""Recorded for a caller that left before it got a status; nobody ever sees it on the wire."""


@dataclass(frozen=True, slots=True)
class Work:
    """One admitted request and all that serving it takes."""

    http: web.Request
    gateway: Gateway
    call: Call
    dialect: CallerDialect
    request: CompletionRequest
    model: Model
    candidates: Sequence[Candidate]
    context: ReplyContext
    bill: Bill
    first_payload: bytes
    """The upstream's request for the first candidate: nearly always the only one needed."""

    def write_payload(self, candidate: Candidate) -> bytes:
        """Raises UpstreamUnavailable for a later route that cannot carry the request."""
        if candidate is self.candidates[0]:
            return self.first_payload
        try:
            return candidate.exchange.write_request(self.request, candidate.target)
        except BadRequest as error:
            raise UpstreamUnavailable(
                "The upstream provider is not available, and another cannot take this request.",
                next_route=True,
                blames_provider=False,
            ) from error

    def pick_headers(self, candidate: Candidate) -> dict[str, str]:
        """The caller's headers that go on to this upstream."""
        return pick_headers(self.http, candidate.exchange)


def pick_headers(http: web.Request, exchange: Exchange) -> dict[str, str]:
    """What an exchange passes on; several lines of a header are one, an empty one is none."""
    found = {
        name: ", ".join(filter(None, http.headers.getall(name, ())))
        for name in exchange.passed_headers
    }
    return {name: value for name, value in found.items() if value}


def name_failure(error: BaseException) -> tuple[Outcome, int]:
    """The outcome and status under which a failure is recorded."""
    for kind, outcome, status in _FAILURES:
        if isinstance(error, kind):
            return outcome, error.status if isinstance(error, GatewayError) else status
    return "internal_error", InternalError.status


_FAILURES: Final[tuple[tuple[type[BaseException], Outcome, int], ...]] = (
    (UpstreamTimeout, "upstream_timeout", 502),
    (UpstreamError, "upstream_error", 502),
    (BadRequest, "rejected", 400),
    (LedgerUnavailable, "ledger_error", 503),
    (Overloaded, "shutdown", 503),
    (asyncio.CancelledError, "shutdown", 503),
    (ConnectionError, "caller_left", CALLER_CLOSED_STATUS),
)


def blame(work: Work, error: BaseException) -> None:
    """An upstream that finds fault speaks of its own model name: say ours."""
    if isinstance(error, GatewayError):
        for candidate in work.candidates:
            if candidate.lane.provider.name == work.call.provider:
                error.replace_name(candidate.target.upstream_model, work.model.id)
                return


def elapsed_ms(call: Call) -> int:
    return int((time.monotonic() - call.started) * 1000)
