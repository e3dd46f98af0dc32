"""Errors of upstreams, mapped for callers.

An upstream's fault never looks like the caller's: only 400, 413 and 422 are passed on as the caller's,
with their message. Other texts of an upstream's errors are withheld, since they may repeat our key or
mention our account there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gateway.dialects.records import Json
from gateway.dialects.wire.jsonbytes import get_object, maybe_loads
from gateway.errors import (
    NO_NAMES,
    BadRequest,
    ErrorNames,
    GatewayError,
    ThreadNotFound,
    UpstreamError,
    UpstreamUnavailable,
)

MAX_MESSAGE_CHARS: Final = 1000
"""Characters of an upstream's text that are passed on; more would help nobody."""

_CODE: Final = re.compile(r"[a-z_]{1,40}")
"""A word such as `overloaded_error`, as opposed to a text, which could quote the request or a key."""
_NAME: Final = re.compile(r"[!-~]{1,64}")
"""The name of a kind of error or of a field: short and without spaces, so it is no text either."""
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "credit_balance_exhausted", "billing_error"})


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The content of an error body; all empty for HTML and the like."""

    message: str = ""
    code: str | None = None
    param: str | None = None
    detail_code: str | None = None
    """`details.error_code` of the messages dialect."""
    names: ErrorNames = NO_NAMES


def read_error(body: object) -> ErrorText:
    """Read the message of any envelope that providers are known to use.

    `{"error":{…}}` (OpenAI, Anthropic), `{"error":"text"}`, an array of such (Gemini), flat
    `{"message":…}` (older vLLM), `{"detail":…}` (FastAPI, Mistral).
    """
    if isinstance(body, list):
        return read_error(body[0]) if body else ErrorText()
    if not isinstance(body, dict):
        return ErrorText()
    inner = body.get("error")
    if isinstance(inner, str):
        return ErrorText(_clean(inner)[:MAX_MESSAGE_CHARS])
    if isinstance(inner, dict):
        body = inner
    message = body.get("message") or body.get("detail")
    return ErrorText(
        _clean(_flatten(message))[:MAX_MESSAGE_CHARS],
        _maybe_text(body.get("code")) or _maybe_text(body.get("type")),
        _maybe_text(body.get("param")),
        _maybe_text(get_object(body, "details").get("error_code")),
        ErrorNames(*(_find_name(body.get(field)) for field in ErrorNames._fields)),
    )


def make_failure(body: object, unavailable: Collection[str] = ()) -> UpstreamError:
    """Make the error for an error inside a reply, in any envelope; `unavailable`: codes for overload."""
    fault = read_error(body)
    kind = UpstreamUnavailable if fault.code in unavailable else UpstreamError
    error = kind(fault.message or "The upstream answered with an error.")
    error.provider_error = fault.names
    # Codes about our funds are only for the operator.
    if fault.code and _CODE.fullmatch(fault.code) and fault.code not in _QUOTA_CODES:
        error.provider_code = fault.code
    return error


def map_status(status: int, body: bytes, retry_after_seconds: float | None) -> GatewayError:
    """Make the error for an upstream's answer with a status other than 200."""
    fault = read_error(maybe_loads(body))
    error = _choose_error(status, fault, retry_after_seconds)
    error.provider_error = fault.names
    error.upstream_status, error.cause = status, f"status {status}"
    if fault.code and _CODE.fullmatch(fault.code):
        error.cause += f" {fault.code}"
    return error


def _choose_error(status: int, fault: ErrorText, retry_after_seconds: float | None) -> GatewayError:
    if status in _REJECTIONS:
        message = fault.message or "The upstream found the request malformed and did not say why."
        return BadRequest(
            message, param=fault.param, code=fault.code, detail_code=fault.detail_code
        )
    if status < _SERVER_ERROR and (fault.detail_code or "").startswith("thread_"):
        return ThreadNotFound(fault.message, param=fault.param, detail_code=fault.detail_code)
    if status == 402 or (status == 429 and fault.code in _QUOTA_CODES):  # noqa: PLR2004
        return UpstreamUnavailable(
            "The upstream provider is not available to the gateway at the moment.",
            next_route=status == 429,  # noqa: PLR2004
            alarm="the provider says that our account there has no funds or quota left",
        )
    if status in _UNAVAILABLE:
        return UpstreamUnavailable(
            _UNAVAILABLE[status],
            retry_after_seconds=retry_after_seconds,
            next_route=True,
            # A limit of our key or account says nothing about the model's health.
            blame="nobody" if status == 429 else "model",  # noqa: PLR2004
            rest_seconds=retry_after_seconds or 0.0,
        )
    return UpstreamError(
        f"The upstream provider answered with status {status}.",
        next_route=status >= _SERVER_ERROR,
        blame="model" if status >= _SERVER_ERROR else "nobody",
        alarm=_ALARMS.get(status),
    )


_SERVER_ERROR: Final = 500
"""The first status that says the provider, not the request, is at fault."""
_REJECTIONS: Final = frozenset({400, 413, 422})
_UNAVAILABLE: Final = {
    429: "The upstream provider is limiting the gateway's rate.",
    503: "The upstream provider is not available.",
    529: "The upstream provider is overloaded.",
}
_ALARMS: Final = {
    401: "the provider refuses our key",
    403: "the provider refuses our key",
    404: "the provider does not know this path or model: is the route right?",
}


def _flatten(message: object) -> str:
    """Join the lists of findings that FastAPI and Mistral send into one text."""
    match message:
        case str():
            return message
        case {"detail": detail}:
            return _flatten(detail)
        case {"msg": str(text)}:
            return text
        case list():
            return "; ".join(filter(None, (_flatten(item) for item in message)))
        case _:
            return ""


def _find_name(value: object) -> str:
    """Return a value if it is a name, else ""."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _maybe_text(value: object) -> str | None:
    return _clean(value)[:100] if isinstance(value, str) and value else None


def _clean(text: str) -> str:
    """Replace lone surrogates, which an upstream makes when it cuts an emoji in two."""
    return text.encode("utf-8", "replace").decode()


def check_error(body: Json, name: str = "") -> None:
    """Raise UpstreamError for an error, in any envelope, in place of a reply or a chunk."""
    if name == "error" or body.get("error") or body.get("object") == "error":
        raise make_failure(body)
