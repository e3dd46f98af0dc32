"""What an upstream's error means for the caller: reading all envelopes, mapping all statuses. No I/O.

A fault of the upstream's never looks like the caller's (design.md §3): only 400, 413 and 422 are
passed on as the caller's, with their message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.jsonbytes import loads_lenient
from gateway.errors import BadRequest, GatewayError, UpstreamError, UpstreamUnavailable

MAX_MESSAGE_CHARS: Final = 1000
"""More of an upstream's text than this helps nobody."""

_QUOTA_CODES: Final = frozenset({"insufficient_quota", "credit_balance_exhausted", "billing_error"})


@dataclass(frozen=True, slots=True)
class ErrorText:
    """What could be read of an error body; all empty for HTML and the like."""

    message: str = ""
    code: str | None = None
    param: str | None = None
    detail_code: str | None = None
    """`details.error_code` of the messages dialect."""


def read_error(body: object) -> ErrorText:
    """The message of any envelope seen in the wild (wire.md §1.5 and §2).

    `{"error":{…}}`, `{"error":"text"}`, an array of such, flat `{"message":…}`, `{"detail":…}`.
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
        _read_details(body),
    )


def map_status(status: int, body: bytes, retry_after_seconds: float | None) -> GatewayError:
    """The error for an upstream's answer that is no 200."""
    try:
        said = read_error(loads_lenient(body))
    except ValueError:
        said = ErrorText()
    if status in _REJECTIONS:
        message = said.message or "The upstream found the request malformed and did not say why."
        return BadRequest(message, param=said.param, code=said.code, detail_code=said.detail_code)
    if status == 402 or (status == 429 and said.code in _QUOTA_CODES):  # noqa: PLR2004
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
            blames_provider=status != 429,  # noqa: PLR2004
            rest_seconds=retry_after_seconds or 0.0,
        )
    return UpstreamError(
        f"The upstream provider answered with status {status}.",
        next_route=status >= 500,  # noqa: PLR2004
        alarm=_ALARMS.get(status),
    )


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


def _read_details(error: dict[str, Any]) -> str | None:
    """The messages dialect's finer word for what is wrong."""
    details = error.get("details")
    return _maybe_text(details.get("error_code")) if isinstance(details, dict) else None


def _flatten(message: Any) -> str:
    """FastAPI and Mistral give lists of findings where others give a sentence."""
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


def _maybe_text(value: object) -> str | None:
    return _clean(value)[:100] if isinstance(value, str) and value else None


def _clean(text: str) -> str:
    """Without lone surrogates, which an upstream makes when it cuts an emoji in two."""
    return text.encode("utf-8", "replace").decode()
