"""Read the fields of a console request's body and query: each with its type, or an error naming it.

Error replies are worded for the people who read them on the page.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self, TypeVar

import orjson

from gateway.base.money import parse_amount_nano
from gateway.base.times import DAY_MS, to_unix_ms
from gateway.extras.signins.door import (
    CodeNeeded,
    TooManyTries,
    WrongCode,
    WrongCurrent,
    WrongPassword,
)
from gateway.extras.signins.hasher import Busy
from gateway.extras.signins.signin import NotFresh
from gateway.ledger.checks import MAX_COUNT
from gateway.ledger.key_records import LIMITS, TermChanges
from gateway.ledger.records import MAX_INTEGER, Conflict, FilesLost, LedgerError, NotFound, Refused

log = logging.getLogger("gateway.console")


@dataclass(slots=True, eq=False)
class ConsoleError(Exception):
    """An error reply: `message` is a whole sentence that says what to do."""

    status: int
    code: str
    message: str
    field: str | None = None
    """The field of the request that is to blame, if it is one."""
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
"""The status of what a sign-in is refused for; other refusals have that of their class."""


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


T = TypeVar("T")
Word = TypeVar("Word", bound=str)

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MAX_NAME_CHARS: Final = 100
"""Characters of an unknown field's name that the error repeats."""

MAX_DIGITS: Final = len(str(MAX_INTEGER)) - 1
"""Digits of a number in a query or a path: always below the largest of SQLite's integers."""


class Fields:
    """A JSON object that is read field by field, in a `with` block whose end is `done`.

    An absent field and null both read as None; `has` tells them apart.
    """

    def __init__(self, body: bytes) -> None:
        self._values = _parse(body)
        self._read: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.done()

    def has(self, name: str) -> bool:
        self._read.add(name)
        return name in self._values

    def text(self, name: str) -> str | None:
        return self._take_typed(name, str, "a text")

    def need_text(self, name: str) -> str:
        return _need(name, self.text(name) or None)

    def boolean(self, name: str) -> bool | None:
        return self._take_typed(name, bool, "true or false")

    def need_choice(self, name: str, words: Sequence[Word]) -> Word:
        return _choose(name, self.need_text(name), words)

    def integer(self, name: str, least: int, most: int) -> int | None:
        value = self._take(name)
        if value is None:
            return None
        # `type`, as `True` is an `int` in Python.
        if type(value) is not int or not least <= value <= most:
            raise invalid_field(name, f"'{name}' must be a whole number from {least} to {most}.")
        return value

    def need_integer(self, name: str, least: int, most: int) -> int:
        return _need(name, self.integer(name, least, most))

    def terms(self) -> TermChanges:
        """Read the terms that are named; null sets the default."""
        changes: TermChanges = {}
        if self.has("models"):
            changes["models"] = self.texts("models")
        for name in LIMITS:
            if self.has(name):
                changes[name] = self.integer(name, 0, MAX_COUNT)
        return changes

    def amount_nano(self, name: str) -> int | None:
        """Read a decimal string such as "0.25" or "-5" as nano-units."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return parse_amount_nano(value.strip())
        except ValueError as error:
            raise invalid_field(name, phrase(str(error))) from error

    def need_amount_nano(self, name: str) -> int:
        return _need(name, self.amount_nano(name))

    def moment_ms(self, name: str) -> int | None:
        """Read an ISO 8601 time with an offset; a bare day means 00:00 UTC."""
        value = self.text(name)
        return None if value is None else parse_moment_ms(name, value)

    def texts(self, name: str) -> tuple[str, ...] | None:
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise invalid_field(name, f"'{name}' must be a list of texts.")
        return tuple(value)

    def done(self) -> None:
        """Raise ConsoleError if the object has a field that was not read."""
        for name in self._values:
            if name not in self._read:
                short = name[:MAX_NAME_CHARS]
                raise ConsoleError(400, "unknown_field", f"There is no field '{short}'.", short)

    def _take_typed(self, name: str, kind: type[T], what: str) -> T | None:
        value = self._take(name)
        if value is not None and not isinstance(value, kind):
            raise invalid_field(name, f"'{name}' must be {what}.")
        return value

    def _take(self, name: str) -> object:
        self._read.add(name)
        return self._values.get(name)


class Query:
    """The query of a console request. Unknown names are ignored."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str) -> str | None:
        """Return the value without surrounding spaces; None if it is absent or empty."""
        value = self._values.get(name, "").strip()
        # SQLite ends a pattern at a NUL, which would then match too much.
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}") or None

    def choice(self, name: str, words: Sequence[Word], default: Word) -> Word:
        return _choose(name, self.text(name) or default, words)

    def optional_choice(self, name: str, words: Sequence[Word]) -> Word | None:
        return None if self.text(name) is None else self.choice(name, words, words[0])

    def integer(self, name: str, least: int, most: int, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        # `isdigit` takes digits of all scripts.
        is_number = value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS
        if not is_number or not least <= int(value) <= most:
            raise invalid_field(name, f"'{name}' must be a whole number from {least} to {most}.")
        return int(value)

    def day(self, name: str) -> int | None:
        """Return a UTC day as the number of days since the epoch."""
        value = self.text(name)
        if value is None:
            return None
        if not _DAY.fullmatch(value):
            raise invalid_field(name, f"'{name}' must be a day such as 2026-05-14.")
        return parse_moment_ms(name, value) // DAY_MS

    def span_ms(self) -> tuple[int | None, int | None]:
        """Return `from` and `to` as times in ms: the first one, and the exclusive end."""
        first, last = self.days()
        return (
            None if first is None else first * DAY_MS,
            None if last is None else (last + 1) * DAY_MS,
        )

    def days(self) -> tuple[int | None, int | None]:
        """Return `from` and `to` as days, both inclusive; each may be absent."""
        first, last = self.day("from"), self.day("to")
        if first is not None and last is not None and first > last:
            raise invalid_field("from", "'from' must not be after 'to'.")
        return first, last


def parse_moment_ms(name: str, value: str) -> int:
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise invalid_field(
            name, f"'{name}' must be a time such as 2026-06-01T12:00:00Z, or a day."
        ) from error
    if moment.tzinfo is None:
        if not _DAY.fullmatch(value.strip()):
            raise invalid_field(
                name, f"'{name}' must say its offset: write Z behind a time in UTC."
            )
        moment = moment.replace(tzinfo=UTC)
    return to_unix_ms(moment)


def read_id(text: str, what: str) -> int:
    """Read a number from a path. Raises NotFound if it is malformed.

    Leading zeros are refused: idempotency keys are stored by path, so each thing needs one path.
    """
    is_id = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not is_id or text.startswith("0"):
        raise NotFound(f"there is no such {what}")
    return int(text)


def _choose(name: str, value: str, words: Sequence[Word]) -> Word:
    for word in words:
        if word == value:
            return word
    raise invalid_field(name, f"'{name}' must be one of {', '.join(words)}.")


def _need(name: str, value: T | None) -> T:
    if value is None:
        raise invalid_field(name, f"'{name}' is missing.")
    return value


def _parse(body: bytes) -> dict[str, object]:
    if not body.strip():
        return {}
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ConsoleError(400, "invalid_json", f"The request is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise ConsoleError(400, "invalid_json", "The request must be a JSON object.")
    return values
