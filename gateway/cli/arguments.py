"""Parsers of the arguments of commands: amounts, counts, durations, times, lists, files."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, TypeVar, get_args

from gateway.base.money import parse_amount_nano
from gateway.base.times import DAY_MS, maybe_seconds, to_unix_ms, unix_ms
from gateway.ledger.budget_records import Allowance, Period
from gateway.ledger.checks import MAX_COUNT

MAX_DURATION_SECONDS: Final = 100 * 366 * 86_400
"""A century. More is a typing error, and Python's dates end with the year 9999."""

T = TypeVar("T")

_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
"""Words for days: how many days ago each one began."""


def amount(text: str) -> int:
    """Parse an amount of money, which may be negative, as nano-units."""
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


def allowance(text: str) -> Allowance:
    """Parse an amount for each period: `10/month`."""
    amount_text, _, period = text.rpartition("/")
    for known in get_args(Period):
        if known == period:
            return Allowance(amount_above_zero(amount_text), known)
    periods = ", ".join(f"10/{known}" for known in get_args(Period))
    raise ArgumentTypeError(f"'{text}' is not an amount and a period; write one like {periods}")


def budget(text: str) -> Allowance | str:
    """Parse a key's budget: an allowance of its own, or the name of a shared one."""
    return allowance(text) if "/" in text else word(text)


def count(text: str) -> int:
    """Parse a whole number, 0 or more."""
    # `int` would take signs, underscores and digits of other scripts, too.
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > MAX_COUNT:
        raise ArgumentTypeError(f"'{text}' is not a whole number from 0 to {MAX_COUNT}")
    return int(text)


def count_above_zero(text: str) -> int:
    number = count(text)
    if number == 0:
        raise ArgumentTypeError(f"'{text}' is not above 0")
    return number


def model_list(text: str) -> tuple[str, ...]:
    """Parse model ids separated by commas; duplicates are dropped."""
    models = tuple(part.strip() for part in text.split(","))
    if not all(models) or not text.isprintable():
        raise ArgumentTypeError("write model ids separated by commas, such as a,b")
    return tuple(dict.fromkeys(models))


def word(text: str) -> str:
    """Parse a name or a note: one line that is not blank."""
    hidden = next((char for char in text if not char.isprintable()), "")
    if hidden or not text.strip():
        # Copied text may have a space that does not break, or a mark, and nobody sees it.
        without = f", without U+{ord(hidden):04X}, which is not shown" if hidden else ""
        raise ArgumentTypeError(f"must be one line of text that is not empty{without}")
    return text


def clearable(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """Extend a parser to accept `none`, which clears the value."""
    return lambda text: None if text == "none" else read(text)


def new_file(text: str) -> Path:
    """Parse a path; a relative one starts at the working directory."""
    if not text or not Path(text).name or "\0" in text:
        raise ArgumentTypeError("write the path of a file")
    return Path(text).absolute()


def duration_seconds(text: str) -> int:
    """Parse `0`, or a whole number with a unit: `90s`, `15m`, `12h`, `30d`, `2w`."""
    if text == "0":
        return 0
    seconds = maybe_seconds(text)
    if seconds is None:
        raise ArgumentTypeError(f"'{text}' is not a duration; write 90s, 15m, 12h, 30d or 2w")
    if seconds > MAX_DURATION_SECONDS:
        raise ArgumentTypeError(f"'{text}' is longer than a century")
    return seconds


Expiry = Callable[[int], int]
"""The end of something, which may be a duration from now, as the clock of the ledger says."""


def expiry(text: str, clock_ms: Callable[[], int] = unix_ms) -> Expiry:
    """Parse the end of something: a duration from now, or a time in the future."""
    is_duration = text == "0" or maybe_seconds(text) is not None
    ms = duration_seconds(text) * 1000 if is_duration else _read_moment(text, "30d, 12h, ")[0]
    if ms <= (0 if is_duration else clock_ms()):
        raise ArgumentTypeError(f"'{text}' is not in the future")
    return lambda now_ms: now_ms + ms if is_duration else ms


def start(text: str, clock_ms: Callable[[], int] = unix_ms) -> int:
    """Parse the start of a period: `7d` ago, `yesterday`, or a time; of a day, 00:00 UTC."""
    return _read_bound(text, clock_ms())[0]


def end(text: str, clock_ms: Callable[[], int] = unix_ms) -> int:
    """Parse the end of a period, which is not part of it; a day is included as a whole."""
    moment, is_day = _read_bound(text, clock_ms())
    return moment + DAY_MS if is_day else moment


def _read_bound(text: str, now_ms: int) -> tuple[int, bool]:
    """Parse a time that may be relative to now, and say whether it is a whole day."""
    if text in _DAYS_AGO:
        return now_ms - now_ms % DAY_MS - _DAYS_AGO[text] * DAY_MS, True
    if maybe_seconds(text) is not None:
        return now_ms - duration_seconds(text) * 1000, False
    return _read_moment(text, "7d, 24h, today, yesterday, ")


def _read_moment(text: str, also: str) -> tuple[int, bool]:
    """Parse a time, and say whether it is a bare date; `also` are other words that would do."""
    try:
        # First, as `datetime` reads a bare date, too, and not as a whole day.
        day = date.fromisoformat(text)
        return to_unix_ms(datetime(day.year, day.month, day.day, tzinfo=UTC)), True
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(
            f"'{text}' is no time; write {also}2026-12-31 or 2026-12-31T18:00 (UTC)"
        ) from error
    return to_unix_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC)), False
