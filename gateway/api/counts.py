"""Counts for operators: refused requests, and requests sent to providers with their failures."""

from __future__ import annotations

from typing import Final

from gateway.api.call import Call, find_code
from gateway.base.errors import (
    GatewayError,
    InternalError,
    InvalidKey,
    OutOfResources,
    UpstreamError,
    take_out,
)
from gateway.ledger.observation_records import UpstreamFailure
from gateway.upstream.routing import Candidate

MAX_REASON_CHARS: Final = 200
"""Characters of a failure's reason, which has to fit into a line or two."""


def note_refusal(call: Call, error: GatewayError) -> None:
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
    call.gateway.ledger.note_refusal(
        account_id, find_code(error), model, call.request_id, named=named, key_id=key_id
    )


def note_upstream_call(call: Call, candidate: Candidate, error: BaseException | None) -> None:
    """Count a request sent to a provider; it failed or was rejected if `error` is the provider's."""
    failure = None
    if isinstance(error, OutOfResources):
        return  # the request was not sent
    if isinstance(error, UpstreamError) or (
        isinstance(error, GatewayError) and error.upstream_status is not None
    ):
        failure = _describe_failure(call, candidate, error)
    call.gateway.ledger.note_upstream_call(call.provider, call.upstream_model, failure)


def _describe_failure(call: Call, candidate: Candidate, error: GatewayError) -> UpstreamFailure:
    """Describe a failure by its kind alone: the provider's words may quote the caller's."""
    candidate.provider.forwarder.redact(error)
    config = candidate.provider.config
    path = candidate.paths[call.stream] or candidate.exchange.upstream.path
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
