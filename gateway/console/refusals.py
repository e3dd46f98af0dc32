"""Error replies of the console's API, worded for the people who read them on the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class ConsoleError(Exception):
    """An error reply: `message` is a whole sentence that says what to do."""

    status: int
    code: str
    message: str
    field: str | None = None
    """The field of the request that is to blame, if it is one."""
    retry_after_seconds: int | None = None
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further members of the error object."""

    def describe(self, request_id: str) -> dict[str, Any]:
        error: dict[str, Any] = {"message": self.message, "code": self.code}
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


def unavailable(message: str) -> ConsoleError:
    return ConsoleError(503, "unavailable", message, retry_after_seconds=1)


def internal_error() -> ConsoleError:
    message = "The gateway failed on this request. Try again; report its id if it fails again."
    return ConsoleError(500, "internal_error", message)


def phrase(text: str) -> str:
    """Turn the message of an operator's verb into a sentence."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")
