"""Counts for operators: refused requests, and how providers answered. Never what was said."""

from __future__ import annotations

import re
from typing import Final

from gateway.api.state import Call
from gateway.errors import GatewayError, InternalError, InvalidKey, OutOfResources, UpstreamError
from gateway.ledger.alert_records import UpstreamFailure
from gateway.upstream.forwarder import take_out
from gateway.upstream.routing import Candidate

MAX_REASON_CHARS: Final = 200
"""Characters of a failure's reason: it has to fit into a line or two."""


_PLAIN: Final = re.compile(r"[a-z_]{1,40}")


def find_code(error: GatewayError) -> str:
    """Return an error's code for logs and tables, or else its type: a provider's code is any text."""
    return error.code if error.code and _PLAIN.fullmatch(error.code) else error.type


def note_refusal(call: Call, error: GatewayError) -> None:
    """Count a request that the gateway refused itself, before it was admitted.

    An unknown key has no account. What else comes without a key, such as an unknown path, is no
    request of anybody.
    """
    if call.outcome is not None or isinstance(error, UpstreamError | InternalError):
        return
    if call.key is None and not isinstance(error, InvalidKey):
        return
    account_id = None if call.key is None else call.key.account.id
    named = call.model or call.asked_model
    # Names that callers make up must not fill the table.
    model = named if named in call.gateway.config.models else ""
    call.gateway.ledger.note_refusal(account_id, find_code(error), model, call.request_id)


def note_upstream_call(call: Call, candidate: Candidate, error: BaseException | None) -> None:
    """Count a request that went to a provider, which failed if `error` is the provider's."""
    if isinstance(error, OutOfResources):
        return  # it did not go out
    failure = None
    if isinstance(error, UpstreamError):
        failure = _describe_failure(call, candidate, error)
    call.gateway.ledger.note_upstream_call(
        candidate.provider.name, candidate.target.upstream_model, failure
    )


def _describe_failure(call: Call, candidate: Candidate, error: UpstreamError) -> UpstreamFailure:
    """Describe a failure by its kind alone: the provider's words may quote the caller's."""
    candidate.provider.forwarder.redact(error)
    config, path = candidate.provider.config, candidate.exchange.upstream.path
    reason = error.cause
    if error.upstream_status is not None and error.alarm:
        reason = f"{reason}: {error.alarm}"
    return UpstreamFailure(
        at_ms=call.gateway.ledger.clock(),
        request_id=call.request_id,
        status=error.upstream_status,
        reason=reason[:MAX_REASON_CHARS],
        url=take_out(f"{config.base_url}{path}", config.api_keys) if config.base_url else "",
    )
