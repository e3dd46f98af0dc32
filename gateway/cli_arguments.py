"""What can be written on the command line, as types: amounts, durations, moments, lists.

Each raises ArgumentTypeError with the rule, which argparse shows behind the argument's name.
Moments are Unix milliseconds, UTC throughout.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, TypeVar

from gateway.money import parse_amount_nano
from gateway.times import DAY_MS, to_unix_ms, unix_ms

MAX_DURATION_SECONDS: Final = 100 * 366 * 86_400
"""A century: more is a typing error, and dates end at the year 9999."""
MAX_COUNT: Final = 1_000_000_000

T = TypeVar("T")

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"([0-9]{1,10})([smhdw])")


def amount(text: str) -> int:
    """An amount of money, of either sign, as nano-units."""
    try:
        return parse_amount_nano(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def amount_above_zero(text: str) -> int:
    nano = amount(text)
    if nano <= 0:
        raise ArgumentTypeError(f"'{text}' is not above 0")
    return nano


def amount_or_zero(text: str) -> int:
    nano = amount(text)
    if nano < 0:
        raise ArgumentTypeError(f"'{text}' is below 0")
    return nano


def count(text: str) -> int:
    """A whole number, 0 or more."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > MAX_COUNT:
        raise ArgumentTypeError(f"'{text}' is not a whole number from 0 to {MAX_COUNT}")
    return int(text)


def model_list(text: str) -> tuple[str, ...]:
    """Model ids between commas."""
    models = tuple(part.strip() for part in text.split(","))
    if not all(models) or not text.isprintable():
        raise ArgumentTypeError("write model ids with commas between them, such as a,b")
    return tuple(dict.fromkeys(models))


def word(text: str) -> str:
    """A name or a note: not blank, on one line."""
    if not text.strip() or not text.isprintable():
        raise ArgumentTypeError("must be a text on one line that is not empty")
    return text


def clearable(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same, or `none`, which takes away what is set."""
    return lambda text: None if text == "none" else read(text)


def new_file(text: str) -> Path:
    """A path, from where the command is run."""
    if not text or not Path(text).name or "\0" in text:
        raise ArgumentTypeError("write the path of a file")
    return Path(text).absolute()


def duration_seconds(text: str) -> int:
    """`0`, or a whole number with its unit: `90s`, `15m`, `12h`, `30d`, `2w`."""
    if text == "0":
        return 0
    found = _DURATION.fullmatch(text)
    if not found:
        raise ArgumentTypeError(f"'{text}' is no duration; write 90s, 15m, 12h, 30d or 2w")
    seconds = int(found[1]) * _UNITS[found[2]]
    if seconds > MAX_DURATION_SECONDS:
        raise ArgumentTypeError(f"'{text}' is more than a century")
    return seconds


def expiry(text: str, clock_ms: Callable[[], int] = unix_ms) -> int:
    """When something ends: a duration from now, or a moment yet to come."""
    now = clock_ms()
    is_duration = text == "0" or _DURATION.fullmatch(text)
    ends = now + duration_seconds(text) * 1000 if is_duration else start(text)
    if ends <= now:
        raise ArgumentTypeError(f"'{text}' is not in the future")
    return ends


def start(text: str) -> int:
    """A moment; of a date alone, its first."""
    return _read_moment(text)[0]


def end(text: str) -> int:
    """The moment before which something lies; a date alone is included."""
    moment, whole_day = _read_moment(text)
    return moment + DAY_MS if whole_day else moment


def _read_moment(text: str) -> tuple[int, bool]:
    """The moment, and whether it was written as a date alone."""
    try:
        day = date.fromisoformat(text)
        return to_unix_ms(datetime(day.year, day.month, day.day, tzinfo=UTC)), True
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(
            f"'{text}' is no date; write 2026-12-31 or 2026-12-31T18:00 (UTC)"
        ) from error
    return to_unix_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC)), False
