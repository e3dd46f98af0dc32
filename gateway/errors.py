"""What can go wrong, and whose fault it is.

One family. The class says who is to blame (the caller, the account, the upstream or the gateway)
and carries what both dialects need to say it: the status, the chat type and code, the messages
type (design.md §3). Nothing here renders; `dialects` does.
"""

from __future__ import annotations

import re
from typing import ClassVar

MAX_RETRY_AFTER_SECONDS = 60
"""Some SDKs obey any Retry-After without a cap, others refuse to retry above 60 or 120 s."""


class GatewayError(Exception):
    """Base of everything a request can be refused or ended with.

    `message` is shown to the caller: never a key, a prompt or a completion in it.
    `retry_after_seconds` becomes Retry-After; `should_retry` False becomes `x-should-retry: false`.
    """

    status: ClassVar[int]
    chat_type: ClassVar[str]
    chat_code: ClassVar[str | None]
    messages_type: ClassVar[str]
    default_retry_after_seconds: ClassVar[float | None] = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after_seconds: float | None = None,
        should_retry: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        seconds = retry_after_seconds
        if seconds is None:
            seconds = self.default_retry_after_seconds
        self.retry_after_seconds = (
            None if seconds is None else min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
        )
        self.should_retry = should_retry

    def replace_text(self, old: str, new: str) -> None:
        """Take `old` out of all that is shown of this error."""
        self.message = self.message.replace(old, new)
        self.param = self.param and self.param.replace(old, new)

    def replace_name(self, old: str, new: str) -> None:
        """Say a model's name as the caller knows it, where it stands as a word of its own."""
        pattern = rf"(?<![\w/.-]){re.escape(old)}(?![\w/-])"
        self.message = re.sub(pattern, lambda _: new, self.message)

    @property
    def type(self) -> str:
        """The chat dialect's `error.type`."""
        return self.chat_type

    @property
    def code(self) -> str | None:
        """The chat dialect's `error.code`."""
        return self.chat_code


class CallerError(GatewayError):
    """The caller's request cannot be served as it is."""

    chat_type = "invalid_request_error"
    chat_code: ClassVar[str | None] = None
    messages_type = "invalid_request_error"
    status = 400


class BadRequest(CallerError):
    """Malformed JSON, a wrong type, a value out of range, a missing field.

    `code` is the upstream vendor's own word for it where there is one, else null.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        detail_code: str | None = None,
    ) -> None:
        super().__init__(message, param=param)
        self._code = code
        self.detail_code = detail_code
        """The messages dialect's `details.error_code`: by some of them SDKs know what to do."""

    def replace_text(self, old: str, new: str) -> None:
        super().replace_text(old, new)
        self._code = self._code and self._code.replace(old, new)

    @property
    def code(self) -> str | None:
        return self._code


_MODEL_ID = re.compile(r"[\w./:@+-]{1,100}")


def _name_model(model: str) -> str:
    """The model as the caller wrote it, unless it is none: people paste keys into wrong fields."""
    if _MODEL_ID.fullmatch(model) and "sk-" not in model:
        return f"The model '{model}'"
    return "The model"


class UnknownModel(CallerError):
    chat_code = "model_not_found"

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{_name_model(model)} does not exist here. GET /v1/models lists the models.",
            param="model",
        )


class ModelNotFound(UnknownModel):
    """The same of `GET /v1/models/{id}`: a path that leads nowhere."""

    status = 404
    messages_type = "not_found_error"


class InvalidKey(CallerError):
    """Missing, malformed, unknown, revoked and expired keys: one text, so nothing can be probed."""

    status = 401
    chat_code = "invalid_api_key"
    messages_type = "authentication_error"

    def __init__(
        self,
        message: str = (
            "Invalid or missing API key. Pass a valid key as 'Authorization: Bearer sk-ru-...' "
            "or 'x-api-key: sk-ru-...'."
        ),
    ) -> None:
        super().__init__(message)


class NotFound(CallerError):
    status = 404
    chat_code = "unknown_url"
    messages_type = "not_found_error"


class MethodNotAllowed(CallerError):
    status = 405
    chat_code = "method_not_allowed"

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class BodyTimeout(CallerError):
    status = 408
    chat_code = "request_timeout"


class BodyTooLarge(CallerError):
    status = 413
    chat_code = "request_too_large"
    messages_type = "request_too_large"


class UnsupportedMediaType(CallerError):
    status = 415
    chat_code = "unsupported_media_type"


class AccountError(GatewayError):
    """The account or the key may not do this, or not now."""


class InsufficientBalance(AccountError):
    """The balance is not positive, or the key's own cap is spent."""

    status = 402
    chat_type = "insufficient_quota"
    chat_code = "insufficient_quota"
    messages_type = "billing_error"


class AccountSuspended(AccountError):
    status = 403
    chat_type = "invalid_request_error"
    chat_code = "account_suspended"
    messages_type = "permission_error"


class ModelNotAllowed(AccountError):
    status = 403
    chat_type = "invalid_request_error"
    chat_code = "model_not_allowed"
    messages_type = "permission_error"

    def __init__(self, model: str) -> None:
        super().__init__(f"This key may not use the model '{model}'.", param="model")


class RateLimited(AccountError):
    """A limit of the key: `kind` is what there was too much of, `requests` or `tokens`."""

    status = 429
    chat_type = "requests"
    chat_code = "rate_limit_exceeded"
    messages_type = "rate_limit_error"
    default_retry_after_seconds = 1.0

    def __init__(
        self, message: str, *, kind: str = "requests", retry_after_seconds: float = 1.0
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.kind = kind

    @property
    def type(self) -> str:
        return self.kind


class BalanceHeld(RateLimited):
    """The balance is positive, but requests in flight hold all of it."""


class UpstreamError(GatewayError):
    """The provider's fault. `next_route`: nothing was done there, so another route may be tried."""

    status = 502
    chat_type = "server_error"
    chat_code = "upstream_error"
    messages_type = "api_error"

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        should_retry: bool = True,
        next_route: bool = False,
        blames_provider: bool = True,
        rest_seconds: float = 0.0,
        alarm: str | None = None,
    ) -> None:
        super().__init__(
            message, retry_after_seconds=retry_after_seconds, should_retry=should_retry
        )
        self.next_route = next_route
        self.blames_provider = blames_provider
        """Whether it counts towards the breaker; a rate limit or a full lane does not."""
        self.rest_seconds = min(rest_seconds, MAX_RETRY_AFTER_SECONDS)
        """How long the provider asked to be left alone; 0 when it did not."""
        self.alarm = alarm
        """What the operator has to mend (our key refused, a model mapped wrongly), for the log."""


class UpstreamTimeout(UpstreamError):
    """The work may have been done: neither we nor the SDK may simply try again."""

    chat_code = "upstream_timeout"

    def __init__(self, message: str) -> None:
        super().__init__(message, should_retry=False)


class UpstreamUnavailable(UpstreamError):
    """Unreachable, rate-limiting us, out of our quota there, or cut off by the breaker."""

    status = 503
    chat_type = "service_unavailable_error"
    chat_code = "upstream_unavailable"
    messages_type = "overloaded_error"
    default_retry_after_seconds = 1.0


class GatewayFault(GatewayError):
    """Our own fault or our own limits."""


class Overloaded(GatewayFault):
    """Too much in flight, draining, or the ledger cannot be written."""

    status = 503
    chat_type = "service_unavailable_error"
    chat_code = "server_is_overloaded"
    messages_type = "overloaded_error"
    default_retry_after_seconds = 1.0


class LedgerUnavailable(Overloaded):
    """Money cannot be written down just now, so none may be spent."""

    def __init__(self, *, should_retry: bool = True) -> None:
        super().__init__(
            "The gateway cannot write its ledger at the moment. Try again shortly.",
            should_retry=should_retry,
        )


class InternalError(GatewayFault):
    status = 500
    chat_type = "server_error"
    chat_code = "internal_error"
    messages_type = "api_error"

    def __init__(self) -> None:
        super().__init__("The gateway failed on this request. It is logged under its request id.")
