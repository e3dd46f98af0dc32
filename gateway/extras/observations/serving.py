"""Counts for operators: refused requests, requests sent to providers with their failures, times of replies.

The latest failures are kept in memory. Callers find their refused requests where receipts are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from gateway.api.front import Call, KeyedCall, find_code
from gateway.api.lookups import reply_json, show_receipt
from gateway.api.routes import Endpoint
from gateway.api.state import Gateway
from gateway.base.errors import (
    GatewayError,
    InternalError,
    InvalidKey,
    NotFound,
    OutOfResources,
    UpstreamError,
    take_out,
)
from gateway.base.ids import is_request_id
from gateway.base.times import format_iso, unix_ms
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.extension import Started, find_formats
from gateway.extras.observations.book import REFUSED, write_observations
from gateway.extras.observations.observer import Observations, Observer
from gateway.extras.observations.records import UpstreamFailure
from gateway.ledger.base import AsideEnd
from gateway.ledger.serving.ledger import ServingLedger
from gateway.upstream.routing import Route

MAX_REASON_CHARS: Final = 200
"""Characters of a failure's reason, which has to fit into a line or two."""
MAX_FAILURES: Final = 20
"""How many of the latest failures are kept: they fill a screen."""
SERVER_ERROR: Final = 500
"""The lowest status that counts as a failure of the gateway or of a provider."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply of status 500 or above."""

    at_ms: int
    request_id: str
    status: int
    code: str | None
    provider: str | None


class LatestFailures(deque[Failure]):
    """The latest failures of this process, the newest last."""

    def note(self, call: Call, status: int) -> None:
        """Keep a request that ended with a failure."""
        if status >= SERVER_ERROR:
            provider = call.provider or None
            self.append(Failure(unix_ms(), call.request_id, status, call.error_code, provider))


def start(gateway: Gateway) -> Started:
    callers = tuple(find_formats().callers.values())
    path = "/v1/receipts/{request_id}"
    observer, latest = observe(gateway.ledger), LatestFailures(maxlen=MAX_FAILURES)
    gateway.refusal_listeners.append(partial(_note_refusal, observer))
    gateway.attempt_listeners.append(partial(_note_upstream_call, observer))
    gateway.listeners += (partial(_note_latency, observer), latest.note)
    receipts = Endpoint("GET", path, "free", _find_receipt, callers)
    return Started(endpoints=(receipts,), offers=(latest,))


def observe(ledger: ServingLedger) -> Observer:
    """Make the observer of a ledger, which is closed as the ledger ends."""

    def write(sums: Observations, report: AsideEnd) -> None:
        now_ms = ledger.clock()
        ledger.start_aside(partial(write_observations, observed=sums, now_ms=now_ms), report)

    observer = Observer(write, ledger.clock)
    ledger.at_end.append(observer.close)
    return observer


def _note_refusal(observer: Observer, call: Call, error: GatewayError) -> None:
    """Count a request that the gateway refused itself, before it was admitted.

    A request with an unknown key counts without an account. Requests without a key, such as those for
    unknown paths, do not count.
    """
    # Admitted requests are in the ledger, and failures of the gateway or a provider are not refusals.
    if call.settlement is not None or isinstance(error, UpstreamError | InternalError):
        return
    if call.key is None and not isinstance(error, InvalidKey):
        return
    account_id, key_id = (None, "") if call.key is None else (call.key.account.id, call.key.id)
    named = call.model or call.asked_model
    # Names that callers make up must not fill the table of sums.
    model = named if named in call.gateway.config.models else ""
    observer.note_refusal(
        account_id, find_code(error), model, call.request_id, named=named, key_id=key_id
    )


def _note_upstream_call(
    observer: Observer, call: Call, route: Route, error: BaseException | None
) -> None:
    """Count a request sent to a provider; it failed or was rejected if `error` is the provider's."""
    failure = None
    if isinstance(error, OutOfResources):
        return  # the request was not sent
    if isinstance(error, UpstreamError) or (
        isinstance(error, GatewayError) and error.upstream_status is not None
    ):
        failure = _describe_failure(call, route, error)
    observer.note_upstream_call(call.provider, call.upstream_model, failure)


def _note_latency(observer: Observer, call: Call, status: int) -> None:  # noqa: ARG001 - a listener
    """Count the duration of a complete reply."""
    end = call.settlement
    if call.key is None or end is None or end.outcome != "complete" or end.first_byte_ms is None:
        return
    observer.note_latency(
        call.key.account.id,
        call.provider,
        call.upstream_model,
        end.ended_ms,
        first_byte_ms=end.first_byte_ms,
        total_ms=end.ended_ms - call.started_ms,
    )


def _describe_failure(call: Call, route: Route, error: GatewayError) -> UpstreamFailure:
    """Describe a failure by its kind alone: the provider's words may quote the caller's."""
    route.provider.forwarder.redact(error)
    config = route.provider.config
    path = route.paths[call.stream] or route.exchange.upstream.path
    reason = error.cause
    if isinstance(error, UpstreamError) and error.upstream_status is not None and error.alarm:
        reason = f"{reason}: {error.alarm}"
    return UpstreamFailure(
        at_ms=call.gateway.ledger.clock(),
        request_id=call.request_id,
        status=error.upstream_status,
        reason=reason[:MAX_REASON_CHARS],
        url=take_out(f"{config.base_url}{path}", config.api_keys) if config.base_url else "",
        **error.provider_error._asdict(),
        rejected=not isinstance(error, UpstreamError),
    )


async def _find_receipt(http: web.Request, call: KeyedCall) -> web.Response:
    """Answer with a receipt, or with the refusal of a request that has none."""
    try:
        return await show_receipt(http, call)
    except NotFound as unknown:
        request_id = http.match_info["request_id"]
        if is_request_id(request_id) and (refused := await _find_refused(call, request_id)):
            return reply_json(dumps_lenient(refused))
        known = "and a request that was refused before it was admitted is known for 7 days."
        raise NotFound(f"{str(unknown).rstrip('.')}, {known}") from None


async def _find_refused(call: KeyedCall, request_id: str) -> dict[str, object]:
    """Return the JSON of a request that was refused to the same key, or nothing."""
    wanted = {"id": request_id, "key": call.key.id}
    names = ("request_id", "state", "at", "code", "model")
    for id_, at_ms, code, model in await call.gateway.ledger.fetch(REFUSED, wanted):
        return dict(zip(names, (id_, "refused", format_iso(int(at_ms)), code, model), strict=True))
    return {}
