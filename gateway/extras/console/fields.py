"""Read the fields of a console request's body and query: each with its type, or an error naming it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Self, TypeVar

import orjson

from gateway.base.money import parse_amount_nano
from gateway.base.times import DAY_MS, to_unix_ms
from gateway.extras.console.errors import ConsoleError, invalid_field, phrase
from gateway.ledger.checks import MAX_COUNT
from gateway.ledger.key_records import LIMITS, TermChanges
from gateway.ledger.records import MAX_INTEGER, NotFound

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MAX_NAME_CHARS: Final = 100
"""Characters of an unknown field's name that the error repeats, so that it stays readable."""

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
        """Read the terms that the request has; null sets the default."""
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
