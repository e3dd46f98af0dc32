"""Failed attempts and refused requests in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.admin.fields import Fields
from gateway.base.times import format_moment
from gateway.extras.observations.records import KeyLabel, RefusedView, UpstreamFailure

MAX_NAMED: Final = 8
"""The most models that a reason names: all models of a key with a short list."""
REASONS: Final[Mapping[str, str]] = {
    "invalid_api_key": "The key has expired or was revoked.",
    "account_suspended": "The account is suspended.",
    "insufficient_quota": "The balance, the cap of the key or its budget was used up.",
    "model_not_allowed": "The key, or its account, may not use the model.",
    "model_not_found": "There is no model of that name, or none that takes such requests.",
    "requests": "A limit of requests, of the key or its account, was reached.",
    "tokens": "The limit of tokens of the key, or of its account, was reached.",
    "rate_limit_exceeded": "A limit of the key or its account was reached, or calls in flight held all of the balance.",
    "server_is_overloaded": "The gateway was at a limit, restarted, or could not write its ledger. Such calls may be sent again.",
    "request_timeout": "The body did not arrive in time.",
    "request_too_large": "The body was too large.",
    "unsupported_media_type": "The body was of another type than its path takes.",
    "unknown_url": "There is no such address.",
    "method_not_allowed": "The address does not take this method.",
}
"""Why a request was refused, by its code. Other codes are those of requests that are not valid."""
INVALID: Final = "The request was not valid. The error that its caller got names the field."


def explain_refusal(one: RefusedView) -> str:
    """Say in words why a request was refused, by what its key may do now."""
    if one.code == "model_not_allowed" and one.models is not None:
        names = [*one.models[:MAX_NAMED], *(["…"] if len(one.models) > MAX_NAMED else [])]
        return (
            f"The key may not use the model {one.model}. It may use {', '.join(names) or 'none'}."
        )
    if one.code == "invalid_api_key" and one.ended_ms is not None and one.ended_ms <= one.at_ms:
        return f"The key ended on {format_moment(one.ended_ms)} UTC."
    return REASONS.get(one.code, INVALID)


KEY_LABEL: Final = Fields[KeyLabel](("key", "id"), ("key_name", "name"), ("key_display", "display"))
REFUSED: Final = Fields[RefusedView](
    ("state", lambda _: "refused"),
    *("request_id", "account", "at_ms", "code", "model"),
    ("reason", explain_refusal),
    ("key", lambda one: None if one.key is None else one.key.id),
    ("key_name", lambda one: None if one.key is None else one.key.name),
    ("key_display", lambda one: None if one.key is None else one.key.display),
    table=(("REFUSED UTC", "at_ms"), "account", "code", ("MODEL", "model"), ("ID", "request_id")),
)
FAILURE: Final = Fields[UpstreamFailure](
    "at_ms", "request_id", "status", "reason", "url", "type", "code", "param"
)


def describe_failure(failure: UpstreamFailure) -> str:
    """Return why the provider failed, its name for the error, and the address."""
    named = (("type", failure.type), ("code", failure.code), ("param", failure.param))
    names = ", ".join(f"{name} {value}" for name, value in named if value)
    reason = f"{failure.reason} ({names})" if names else failure.reason
    return " at ".join(filter(None, (reason, failure.url)))
