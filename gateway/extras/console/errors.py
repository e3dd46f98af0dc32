"""Error replies of the console, worded for the people who read them on the page."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.extras.signins.door import (
    CodeNeeded,
    TooManyTries,
    WrongCode,
    WrongCurrent,
    WrongPassword,
)
from gateway.extras.signins.hasher import Busy
from gateway.extras.signins.signin import NotFresh
from gateway.ledger.records import Conflict, FilesLost, LedgerError, NotFound, Refused

log = logging.getLogger("gateway.console")


@dataclass(slots=True, eq=False)
class ConsoleError(Exception):
    """An error reply: `message` is a whole sentence that says what to do."""

    status: int
    code: str
    message: str
    field: str | None = None
    """The field of the request that the error is about, if any."""
    retry_after_seconds: int | None = None
    more: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Further members of the error object."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def describe(self, request_id: str) -> dict[str, object]:
        error: dict[str, object] = {"message": self.message, "code": self.code}
        if self.field is not None:
            error["field"] = self.field
        if self.retry_after_seconds is not None:
            error["retry_after_seconds"] = self.retry_after_seconds
        return {"error": {**error, **self.more, "request_id": request_id}}


def invalid_field(name: str, message: str) -> ConsoleError:
    return ConsoleError(400, "invalid_field", message, name)


def not_found(what: str = "page") -> ConsoleError:
    return ConsoleError(404, "not_found", f"There is no such {what} here.")


def not_signed_in() -> ConsoleError:
    message = "You are not signed in, or your session has ended. Sign in again."
    return ConsoleError(401, "not_signed_in", message)


def not_for_token(message: str) -> ConsoleError:
    return ConsoleError(403, "token_not_allowed", f"{message} Sign in as an operator for it.")


def signed_in_by_proxy() -> ConsoleError:
    message = (
        "The proxy in front of this gateway signs you in and out, with a password of its own. Use"
        " its page for this."
    )
    return ConsoleError(409, "signed_in_by_proxy", message)


def too_many_changes(wait_seconds: int) -> ConsoleError:
    return too_many_tries(
        wait_seconds,
        f"You made too many changes within an hour. Wait {wait_seconds} seconds, then try again.",
    )


def unavailable(message: str) -> ConsoleError:
    return ConsoleError(503, "unavailable", message, retry_after_seconds=1)


def too_many_tries(wait_seconds: int, message: str) -> ConsoleError:
    return ConsoleError(429, "too_many_tries", message, retry_after_seconds=wait_seconds)


_AT_THE_DOOR: Final[Mapping[type[Exception], int]] = {
    WrongPassword: 401,
    WrongCode: 401,
    WrongCurrent: 403,
    CodeNeeded: 403,
    NotFresh: 403,
}
"""The statuses of refused sign-ins; `explain` has those of other refusals, by their base class."""


def explain(request_id: str, error: Exception) -> ConsoleError:
    """Translate an error into an error reply; failures of the ledger or of our own are logged."""
    match error:
        case ConsoleError():
            return error
        case TooManyTries():
            return too_many_tries(error.wait_seconds, str(error))
        case Busy():
            return unavailable(str(error))
        case Refused():
            status = _AT_THE_DOOR.get(
                type(error),
                404 if isinstance(error, NotFound) else 409 if isinstance(error, Conflict) else 400,
            )
            return ConsoleError(status, error.code, phrase(str(error)), error.field)
        case LedgerError():
            # A full disk or a locked database needs no traceback.
            log.error("%s: %s", request_id, error)
            return unavailable(
                "The ledger's files were removed or replaced while in use. The gateway's log tells"
                " its operator how to rescue them."
                if isinstance(error, FilesLost)
                else "The ledger cannot be used just now. Try again shortly."
            )
        case _:
            log.error("%s: internal error", request_id, exc_info=error)
            message = (
                "The gateway failed on this request. Try again; report its id if it fails again."
            )
            return ConsoleError(500, "internal_error", message)


def phrase(text: str) -> str:
    """Turn the message of an operator's verb into a sentence."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")
