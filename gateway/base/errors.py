"""The errors of the gateway, and secrets taken out of them.

The base class of an error says who is to blame. Each class carries what all dialects need: the
status, the `type` and `code` of OpenAI's error object, and the `type` of Anthropic's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, Final, Literal, NamedTuple

MAX_RETRY_AFTER_SECONDS = 60
"""Seconds. Some SDKs wait as long as Retry-After says; others do not retry above 60 or 120 s."""


class ErrorNames(NamedTuple):
    """The names in a provider's error, for looking it up; never its text. "" means absent."""

    type: str = ""
    code: str = ""
    param: str = ""


NO_NAMES: Final = ErrorNames()


class GatewayError(Exception):
    """Base class of all errors that refuse or end a request.

    The caller sees `message`, so it must never contain a key, a prompt or a completion.
    """

    status: ClassVar[int]
    chat_type: ClassVar[str]
    chat_code: ClassVar[str | None]
    messages_type: ClassVar[str]
    retry_after_seconds: float | None = None
    """The value of Retry-After; None sends no such header."""
    should_retry: bool = True
    """False sends `x-should-retry: false`."""
    next_route: bool = False
    """Whether another route may be tried: the provider has done no work."""
    provider_code: str | None = None
    """The code in a provider's error: a plain word that says nothing about our account there."""
    provider_error: ErrorNames = NO_NAMES
    """The provider's own name for its error, for operators."""
    upstream_status: int | None = None
    """The status of the provider's error reply, if there was one."""
    cause: str = ""
    """The provider's failure, for the log: a status or a kind of failure, never the provider's text."""

    def __init__(
        self, message: str, *, param: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.type = self.chat_type
        self.code = self.chat_code
        if retry_after_seconds is not None:
            self.retry_after_seconds = min(max(retry_after_seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def drop_frames(error: BaseException) -> None:
    """Remove the frames from an error that was handled, and from its causes.

    A frame that refers to the error makes a cycle with it, which would keep the request and all its
    bytes until a garbage collection.
    """
    one: BaseException | None = error
    while one is not None and one.__traceback__ is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__


class CallerError(GatewayError):
    """The caller's request cannot be served as it is."""

    chat_type = "invalid_request_error"
    chat_code: ClassVar[str | None] = None
    messages_type = "invalid_request_error"
    status = 400


class BadRequest(CallerError):
    """The request is malformed; `code` is the upstream vendor's own error code, if there is one."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        detail_code: str | None = None,
    ) -> None:
        super().__init__(message, param=param)
        self.code = code
        self.detail_code = detail_code
        """The messages dialect's `details.error_code`, which SDKs act on."""


_MODEL_ID: Final = re.compile(r"(?!.*(sk-|[A-Za-z0-9]{24}))[\w./:@+-]{1,100}")


def name_model(text: str) -> str:
    """Return the text if it can be a model's name, and is no key in the wrong field; else ""."""
    return text if _MODEL_ID.fullmatch(text) else ""


class UnknownModel(CallerError):
    chat_code = "model_not_found"

    def __init__(self, model: str, problem: str = "does not exist here.") -> None:
        name = f" '{model}'" if name_model(model) else ""
        message = f"The model{name} {problem} GET /v1/models lists the models."
        super().__init__(message, param="model")


class ModelNotFound(UnknownModel):
    """The model of `GET /v1/models/{id}` does not exist. The status is 404, as it is a path."""

    status, messages_type = 404, "not_found_error"


class InvalidKey(CallerError):
    """The key is missing, malformed, unknown, revoked or expired.

    A caller that sends a whole key may learn when it ended: its 190 random bits cannot be guessed.
    """

    status = 401
    chat_code = "invalid_api_key"
    messages_type = "authentication_error"
    should_retry = False

    def __init__(
        self,
        hint: str = "There is no such key here; it may be cut or revoked. Its header is"
        " 'Authorization: Bearer sk-ru-...' or 'x-api-key: sk-ru-...'.",
        # LiteLLM tells a wrong key from a bad request by these words, which are OpenAI's.
        problem: str = "Incorrect API key provided.",
    ) -> None:
        super().__init__(f"{problem} {hint}")


class ThreadNotFound(BadRequest):
    """The provider has not stored the conversation. On this error SDKs send it whole."""

    status, messages_type = 404, "not_found_error"


class NotFound(CallerError):
    status, chat_code, messages_type = 404, "unknown_url", "not_found_error"


class MethodNotAllowed(CallerError):
    status, chat_code = 405, "method_not_allowed"

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class BodyTimeout(CallerError):
    status, chat_code = 408, "request_timeout"


class BodyTooLarge(CallerError):
    status, chat_code, messages_type = 413, "request_too_large", "request_too_large"


class UnsupportedMediaType(CallerError):
    status, chat_code = 415, "unsupported_media_type"


class AccountError(GatewayError):
    """The account or the key may not do this. The status is 403 unless a subclass sets another."""

    status = 403
    chat_type = "invalid_request_error"
    messages_type = "permission_error"
    should_retry = False


class InsufficientBalance(AccountError):
    """The balance is not positive, or the key's cap or budget is spent."""

    status, messages_type = 402, "billing_error"
    chat_type = chat_code = "insufficient_quota"


class AccountSuspended(AccountError):
    chat_code = "account_suspended"


class ModelNotAllowed(AccountError):
    chat_code = "model_not_allowed"

    def __init__(self, model: str) -> None:
        super().__init__(
            f"This key or its account may not use the model '{model}'. GET /v1/models lists those"
            " that it may.",
            param="model",
        )


class RateLimited(AccountError):
    """A limit of the key or its account is reached. `kind` says which: `requests` or `tokens`."""

    status = 429
    should_retry = True
    chat_type = "requests"
    chat_code = "rate_limit_exceeded"
    messages_type = "rate_limit_error"
    retry_after_seconds = 1.0

    def __init__(
        self, message: str, *, kind: str = "requests", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.type = kind


class BalanceHeld(RateLimited):
    """The balance is positive, but requests in flight hold all of it."""


Lack = Literal["balance", "cap", "budget", "balance held", "cap held", "budget held"]
"""The limit that is used up: spent, or held by requests in flight."""


class NoFunds(InsufficientBalance):
    """The ledger's refusal. `api.keys.refuse_funds` says it in words, with amounts and their currency."""

    def __init__(self, lack: Lack) -> None:
        super().__init__(lack)
        self.lack: Lack = lack


Blame = Literal["nobody", "model", "reply", "provider"]
"""The breaker that counts an error. A `reply` counts for the model, where several at one instant count once."""


class UpstreamError(GatewayError):
    """The provider failed."""

    refuses_key: bool = False
    """Whether it refuses or limits our key or account there, and not the request."""
    status = 502
    chat_type = "server_error"
    chat_code = "upstream_error"
    messages_type = "api_error"

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        next_route: bool = False,
        blame: Blame = "nobody",
        rest_seconds: float = 0.0,
        alarm: str | None = None,
        cause: str = "200, but an unusable reply",
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.next_route = next_route
        self.cause = cause
        self.blame = blame
        # Limited, as a wrong date must not stop the use of a provider for days.
        self.rest_seconds = min(rest_seconds, MAX_RETRY_AFTER_SECONDS)
        """How long the provider asked the gateway to send nothing; 0 if it did not ask."""
        self.alarm = alarm
        """A problem for the operator to fix (key refused, model mapped wrongly), for the log."""


class UpstreamTimeout(UpstreamError):
    """The provider timed out. It may have done the work, so SDKs must not retry by themselves."""

    chat_code = "upstream_timeout"
    should_retry = False

    def __init__(self, message: str, cause: str = "timeout") -> None:
        super().__init__(message, blame="model", cause=cause)


class UndeliverableReply(UpstreamError):
    """The provider's reply cannot be passed on. It is charged, so SDKs should not retry."""

    should_retry = False


class UpstreamUnavailable(UpstreamError):
    """The provider is unreachable, limits our rate or quota, or its breaker is open."""

    status = 503
    chat_type = "service_unavailable_error"
    chat_code = "upstream_unavailable"
    messages_type = "overloaded_error"
    retry_after_seconds = 1.0


class GatewayFault(GatewayError):
    """The gateway failed, or reached a limit of its own."""


class Overloaded(GatewayFault):
    """Too many requests are in flight, the gateway drains, or the ledger cannot be written."""

    status = 503
    chat_type = "service_unavailable_error"
    chat_code = "server_is_overloaded"
    messages_type = "overloaded_error"
    retry_after_seconds = 1.0


class OutOfResources(Overloaded):
    """The machine lacks descriptors, memory or ports. Another provider may be connected already."""

    next_route = True


STOPPED: Final = "The gateway was stopped before this reply was complete."
RESTARTING: Final = "The gateway is being restarted. Try again shortly."
"""The messages to callers in flight at the end of a drain, and to callers that arrive during it."""


class LedgerUnavailable(Overloaded):
    """The ledger cannot be written, so no money may be spent."""

    def __init__(self, *, should_retry: bool = True) -> None:
        super().__init__("The gateway cannot write its ledger at the moment. Try again shortly.")
        self.should_retry = should_retry


class InternalError(GatewayFault):
    status, messages_type = 500, "api_error"
    chat_type, chat_code = "server_error", "internal_error"

    def __init__(self) -> None:
        super().__init__("The gateway failed on this request. It is logged under its request id.")


_REDACTED: Final = "[redacted]"


def redact(error: GatewayError, secrets: Iterable[str]) -> None:
    """Take secrets out of an error, whatever the provider echoed."""
    for pattern in _list_patterns(secrets):
        _replace(error, pattern, _REDACTED)


def take_out(text: str, secrets: Iterable[str]) -> str:
    """Take secrets out of a text."""
    for pattern in _list_patterns(secrets):
        text = re.sub(pattern, _REDACTED, text)
    return text


_KEY_CHARS: Final = 12
"""Characters from which on a key is no ordinary word: self-hosted servers get keys such as `x` or `EMPTY`."""


def _list_patterns(secrets: Iterable[str]) -> list[str]:
    """Return the secrets' patterns, the longest first, as one may begin another; short ones match words."""
    found = sorted(filter(None, secrets), key=len, reverse=True)
    return [
        re.escape(one) if len(one) >= _KEY_CHARS else rf"(?<!\w){re.escape(one)}(?!\w)"
        for one in found
    ]


def rename_model(error: GatewayError, old: str, new: str) -> None:
    """Replace the provider's name of a model by the gateway's, but not inside a longer word."""
    _replace(error, rf"(?<![\w/.-]){re.escape(old)}(?![\w/-])", new)


def _replace(error: GatewayError, pattern: str, new: str) -> None:
    def edit(text: str) -> str:
        # A function, because a backslash in a replacement text would be read as a group reference.
        return re.sub(pattern, lambda _: new, text)

    error.message = edit(error.message)
    error.cause = edit(error.cause)
    error.param = error.param and edit(error.param)
    error.code = error.code and edit(error.code)
    error.provider_code = error.provider_code and edit(error.provider_code)
    error.provider_error = ErrorNames(*map(edit, error.provider_error))
