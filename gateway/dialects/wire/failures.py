"""Errors of upstreams, mapped for callers; `kinds` has the errors that clients act on.

An upstream's fault never looks like the caller's. An error is passed on as a 400 with its message only if
its kind is the caller's fault, or if its status is 400, 413 or 422. Other messages of upstreams are
withheld, since they may repeat our key or mention our account there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.base.errors import (
    NO_NAMES,
    BadRequest,
    ErrorNames,
    GatewayError,
    ThreadNotFound,
    UpstreamError,
    UpstreamUnavailable,
)
from gateway.dialects.wire.jsonbytes import STRING, get_list, get_object, get_text, maybe_loads
from gateway.dialects.wire.kinds import (
    BY_NAME,
    KINDS,
    TOO_LONG,
    Kind,
    read_counts,
    squeeze,
    write_too_long,
)
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.sse import BOM

_STATUSES: Final = {
    **dict.fromkeys(("invalidrequesterror", "badrequesterror", "invalidargument"), 400),
    "invalidprompt": 400,
    **dict.fromkeys(("authenticationerror", "unauthenticated"), 401),
    **dict.fromkeys(("permissionerror", "permissiondenied"), 403),
    **dict.fromkeys(("notfounderror", "modelnotfound"), 404),
}
"""The statuses meant by types and codes of an error inside a 200, unless `kinds` knows its kind."""
_BY_STATUS: Final = {
    429: BY_NAME["ratelimitexceeded"],
    **dict.fromkeys((503, 529), BY_NAME["serverisoverloaded"]),
}

MAX_MESSAGE_CHARS: Final = 1000
"""Characters of an upstream's message that are passed on: more would help no reader."""

_CODE: Final = re.compile(r"[a-z_]{1,40}")
"""A code such as `overloaded_error`, as opposed to a message, which could quote the request or a key."""
_ACCOUNT: Final = re.compile(
    r"organi[sz]ation|\b(?:billing|quota|credits?|balance)\b|\byour (?:account|team|plan)\b",
    re.IGNORECASE,
)
"""Matches a message about our account at the provider, such as OpenAI's about a rate limit."""
_NAME: Final = re.compile(r"[!-~]{1,64}")
"""The name of a kind of error or of a field: short and without spaces, so it is no message either."""


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The content of an error body; all empty for HTML and the like."""

    message: str = ""
    code: str | None = None
    param: str | None = None
    detail_code: str | None = None
    """`details.error_code` of the messages dialect."""
    names: ErrorNames = NO_NAMES
    all_names: tuple[str, ...] = ()
    """Those of code, status and type that are names, squeezed."""
    status: int | None = None
    """The HTTP status that the body states."""
    within: str = ""
    """The message of the provider behind an aggregator, such as OpenRouter."""


def read_error(body: object) -> ErrorText:
    """Read the message of any envelope that providers are known to use.

    `{"error":{…}}` (OpenAI, Anthropic), `{"error":"text"}`, an array of such (Gemini),
    `{"errors":[…]}` (watsonx, Cloudflare), flat `{"message":…}` (older vLLM) or `{"msg":…}` (Zhipu),
    `{"detail":…}` (FastAPI, Mistral), `{"base_resp":{"status_code":…,"status_msg":…}}` (MiniMax).
    """
    if isinstance(body, list):
        return read_error(body[0]) if body else ErrorText()
    if not isinstance(body, dict):
        return ErrorText()
    inner = body.get("error") or next(iter(get_list(body, "errors")), None)
    if isinstance(inner, str):
        inner = {"message": inner}  # xAI has a `code` beside the text, but none that SDKs know
    if not inner and (code := (base := get_object(body, "base_resp")).get("status_code")):
        inner = {"message": base.get("status_msg"), "code": str(code)}
    if isinstance(inner, dict):
        body = inner
    message = _flatten(body.get("message") or body.get("detail") or body.get("msg"))
    names = [_find_name(body.get(name)) for name in ("code", "status", "type")]
    statuses = body.get("status"), body.get("code")
    return ErrorText(
        _clean(_add_counts(message, body))[:MAX_MESSAGE_CHARS],
        _maybe_text(body.get("code")) or _maybe_text(body.get("type")),
        _maybe_text(body.get("param")),
        _maybe_text(get_object(body, "details").get("error_code")),
        ErrorNames(*(_find_name(body.get(field)) for field in ErrorNames._fields)),
        tuple(squeeze(name) for name in names if name),
        next((one for one in statuses if type(one) is int and 400 <= one <= 599), None),  # noqa: PLR2004
        get_text(get_object(body, "metadata"), "raw")[:MAX_MESSAGE_CHARS],
    )


def _add_counts(message: str, body: Json) -> str:
    """Add the counts that llama.cpp gives beside its message."""
    used, most = body.get("n_prompt_tokens"), body.get("n_ctx")
    if type(used) is not int or type(most) is not int or used <= most or str(used) in message:
        return message
    return f"{message} ({used} tokens > {most})"


def make_failure(body: object) -> GatewayError:
    """Make the error for an error inside a reply or a stream, in any envelope."""
    fault = read_error(body)
    named = (_STATUSES[one] for one in fault.all_names if one in _STATUSES)
    status = fault.status or next(named, 0)
    kind = find_kind(status, fault)
    status = kind.status if kind else status
    error: GatewayError
    if status in _REJECTIONS:
        error = _reject(status, fault, kind)
        error.upstream_status, error.cause = 200, f"200, but {error.code or 'a rejection'}"
    elif status in _PRIVATE:
        error = _choose_error(status, fault, kind, None)
    else:
        text = "" if _ACCOUNT.search(fault.message) else fault.message
        text = text or "The upstream answered with an error."
        error = (UpstreamUnavailable if status in _BY_STATUS else UpstreamError)(text)
    return _name(error, fault, kind)


def map_status(
    status: int, body: bytes, retry_after_seconds: float | None, *, is_cut: bool = False
) -> GatewayError:
    """Make the error for an upstream's answer with a status other than 200.

    `is_cut`: the body is the beginning of a longer one.
    """
    body = body.removeprefix(BOM)
    parsed = maybe_loads(body)
    fault = read_error(_read_cut(body) if parsed is None and is_cut else parsed)
    kind = find_kind(status, fault)
    error = _choose_error(status, fault, kind, retry_after_seconds)
    error.upstream_status, error.cause = status, f"status {status}"
    if fault.code and _CODE.fullmatch(fault.code):
        error.cause += f" {fault.code}"
    if isinstance(error, UpstreamError):
        is_told = status == 400 and _find_meant(status, kind) in _ABOUT_KEY  # noqa: PLR2004
        error.refuses_key = status in _ABOUT_KEY or (
            is_told and _KEY_REFUSAL.match(fault.message) is not None
        )
    return _name(error, fault, kind)


def _read_cut(body: bytes) -> object:
    """Find the message in the body of an error that was cut; the message may be cut, too.

    FastAPI repeats the request behind each message, so such a body is longer than the part that is read. A
    request's own texts could be taken for the message, so only what stands before the request is searched.
    """
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    request = _REQUEST.search(body)
    found = _MESSAGE.search(body, 0, request.start() if request else len(body))
    return {"message": maybe_loads(b'"%b"' % found[1])} if found else None


_REQUEST: Final = re.compile(rb'"(?:input|body|messages|prompt)"\s*+:')
_MESSAGE: Final = re.compile(rb'"(?:message|msg|detail|error)"\s*+:\s*+"(%b)' % STRING)


def _name(error: GatewayError, fault: ErrorText, kind: Kind | None) -> GatewayError:
    """Add the provider's names of the error: all for operators, a code for callers if there is no alarm."""
    error.provider_error = fault.names
    if not isinstance(error, UpstreamError) or error.alarm:
        return error
    code = fault.code if kind is None else _choose_code(fault, kind)
    if code and _CODE.fullmatch(code):
        error.provider_code = code
    return error


def find_kind(status: int, fault: ErrorText) -> Kind | None:
    """Recognise the kind of an error by its names, its words or its status; 0 is for none."""
    texts = (fault.message, fault.within)
    named = (BY_NAME[one] for one in fault.all_names if one in BY_NAME)
    worded = (one for one in KINDS if any(map(one.words.search, texts)))
    kind = next(named, None) or next(worded, None) or _BY_STATUS.get(status)
    # Groq sends a 413 for a request with more tokens than a minute may have, so waiting does not help. A
    # server in front of a provider sends it without JSON.
    if status == _TOO_LARGE and (kind in _BY_STATUS.values() if kind else fault == ErrorText()):
        return BY_NAME[squeeze(TOO_LONG)]
    # A provider that fails (5xx) may blame a picture in its message, but the request is not at fault.
    is_broken = status >= _SERVER_ERROR and kind is not None and "image" in kind.code
    return None if is_broken else kind


def _find_meant(status: int, kind: Kind | None) -> int:
    """Return the status that an error should have had."""
    # Statuses that ask to wait (429, 503, 529) are more exact than the code beside them.
    if kind is None or {status, kind.status} <= _BY_STATUS.keys():
        return status
    return kind.status


def _choose_error(
    status: int, fault: ErrorText, kind: Kind | None, retry_after_seconds: float | None
) -> GatewayError:
    meant = _find_meant(status, kind)
    if meant in _REJECTIONS:
        return _reject(status, fault, kind)
    if status < _SERVER_ERROR and (fault.detail_code or "").startswith("thread_"):
        return ThreadNotFound(fault.message, param=fault.param, detail_code=fault.detail_code)
    if meant == 402:  # noqa: PLR2004
        return UpstreamUnavailable(
            "The upstream provider is not available to the gateway at the moment.",
            next_route=status == 429 or status >= _SERVER_ERROR,  # noqa: PLR2004
            alarm="the provider says that our account there has no funds or quota left",
        )
    if meant in _UNAVAILABLE:
        return UpstreamUnavailable(
            _UNAVAILABLE[meant],
            retry_after_seconds=retry_after_seconds,
            next_route=True,
            # A limit of our key or account says nothing about the model's health.
            blame="nobody" if meant == 429 else "model",  # noqa: PLR2004
            rest_seconds=retry_after_seconds or 0.0,
        )
    return UpstreamError(
        f"The upstream provider answered with status {status}.",
        next_route=status >= _SERVER_ERROR,
        blame="model" if status >= _SERVER_ERROR else "nobody",
        alarm=_ALARMS.get(meant),
    )


def _reject(status: int, fault: ErrorText, kind: Kind | None) -> BadRequest:
    """Make the error for a fault of the caller's, with the provider's message if it may be shown."""
    known = {"param": fault.param, "detail_code": fault.detail_code}
    if kind is None:
        text = fault.message or "The upstream found the request malformed and did not say why."
        return BadRequest(text, code=fault.code, **known)
    text = fault.message if status in _REJECTIONS and not _ACCOUNT.search(fault.message) else ""
    if kind.code == TOO_LONG and (not text or (fault.within and not kind.words.search(text))):
        text = write_too_long(read_counts(fault.message) or read_counts(fault.within))
    text = text or "The upstream provider refuses what the request contains."
    return BadRequest(text, code=_choose_code(fault, kind), **known)


def _choose_code(fault: ErrorText, kind: Kind) -> str:
    return fault.code if fault.code in kind.kept and fault.code else kind.code


_TOO_LARGE: Final = 413
"""The status for a request with too many bytes, or too many tokens."""
_SERVER_ERROR: Final = 500
"""The first status that says the provider, not the request, is at fault."""
_REJECTIONS: Final = frozenset({400, 413, 422})
_PRIVATE: Final = frozenset({401, 402, 403, 404})
"""Statuses about our account or our route."""
_ABOUT_KEY: Final = frozenset({401, 402, 403, 429})
"""Statuses that refuse or limit our key, and not the request."""
_KEY_REFUSAL: Final = re.compile(
    r"(?:your |this )?(?:(?:incorrect )?API key|credit balance|organization has been)\b",
    re.IGNORECASE,
)
"""Matches the message of a 400 that refuses our key or account (Gemini, xAI, Anthropic, Groq). Only its
beginning counts: further on, providers quote the caller, who could otherwise make all our keys rest."""
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
    """Join the list of problems that FastAPI and Mistral send into one message."""
    match message:
        case str():
            return message
        case {"detail": told} | {"error": told}:
            return _flatten(told)
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
    """Replace lone surrogates, which remain if an upstream cuts an emoji in two."""
    return text.encode("utf-8", "replace").decode()


def check_error(body: Json, name: str = "", *, type_key: str = "object") -> None:
    """Raise GatewayError for an error, in any envelope, in place of a reply, a chunk or an event.

    `name` is the event's; `type_key` is the member in which the dialect's objects have their type.
    """
    if name == "error" or body.get("error") or body.get(type_key) == "error":
        raise make_failure(body)
    if not _VERDICTS.isdisjoint(body):
        failed = body.get("success") is False or get_object(body, "base_resp").get("status_code")
        if failed and not (body.get("choices") or body.get("content")):
            raise make_failure(body)


_VERDICTS: Final = frozenset({"success", "base_resp"})
"""Members in which Zhipu and MiniMax say, within a 200, whether they failed. With a part of a
reply they did not."""
