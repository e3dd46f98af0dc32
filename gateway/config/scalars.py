"""Readers of single TOML values: numbers, durations, amounts, texts and choices."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from gateway.config.reader import Read, show
from gateway.extension import find_advice

MAX_SECONDS: Final = 86_400
"""A day. A longer time-out is a typing error."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def integer(least: int, most: int) -> Read:
    """Make a reader of whole numbers from `least` to `most`."""

    def read(value: object) -> int:
        # `type`, as `True` is an `int` in Python.
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}, not {show(value)}")
        return value

    return read


def seconds(*, or_zero: bool = False) -> Read:
    """Make a reader of durations in seconds."""
    rule = "0 or more" if or_zero else "above 0"

    def read(value: object) -> float:
        number = _finite(value)
        if number is None or number < 0 or (number == 0 and not or_zero):
            raise ValueError(f"must be a number of seconds {rule}, not {show(value)}")
        if number > MAX_SECONDS:
            raise ValueError(f"must be at most {MAX_SECONDS} seconds, not {show(value)}")
        return float(number)

    return read


def nano_units(most: int) -> Read:
    """Make a reader of amounts from 0 to `most` units, as nano-units. Finer amounts are refused."""
    return _scaled(most, 9, "nano-unit")


def factor(most: int) -> Read:
    """Make a reader of factors above 0 up to `most`, as millionths. Finer ones are refused."""
    scaled = _scaled(most, 6, "millionth")

    def read(value: object) -> int:
        if found := scaled(value):
            return int(found)
        raise ValueError("must be above 0")

    return read


def _scaled(most: int, places: int, unit: str) -> Read:
    """Make a reader of decimals from 0 to `most`, as integers of units with so many decimals."""

    def read(value: object) -> int:
        number = _finite(value)
        if number is None or not 0 <= number <= most:
            raise ValueError(f"must be a decimal number from 0 to {most}, not {show(value)}")
        _, digits, exponent = number.as_tuple()
        shift = int(exponent) + places
        # Work on the digits, as Decimal's operators round to 28 places.
        unscaled = "".join(map(str, digits))
        if shift < 0:
            if unscaled[shift:].strip("0"):
                raise ValueError(f"is finer than a {unit}; use at most {places} decimals")
            return int(unscaled[:shift] or "0")
        return int(unscaled) * 10**shift if int(unscaled) else 0

    return read


def _finite(value: object) -> Decimal | None:
    if type(value) is int:
        return Decimal(value)
    return value if isinstance(value, Decimal) and value.is_finite() else None


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {show(value)}")  # noqa: TRY004 - a reader's one error
    return value


def text(value: object) -> str:
    """Read one line of text that is not empty."""
    if not isinstance(value, str) or not value.strip() or _CONTROL.search(value):
        raise ValueError(f"must be one line of text that is not empty, not {show(value)}")
    return value


def matching(pattern: str, rule: str) -> Read:
    """Make a reader of texts that match `pattern`; `rule` completes "must be …"."""
    shape = re.compile(pattern)

    def read(value: object) -> str:
        if not isinstance(value, str) or not shape.fullmatch(value):
            raise ValueError(f"must be {rule}, not {show(value)}")
        return value

    return read


def choice(*words: str) -> Read:
    """Make a reader that accepts only these words."""
    rest = ", ".join(f'"{word}"' for word in words[:-1])
    rule = f'{rest} or "{words[-1]}"' if rest else f'"{words[-1]}"'

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            meant = find_advice().guess(value, words) if isinstance(value, str) else None
            hint = f"; did you mean {show(meant)}?" if meant else ""
            raise ValueError(f"must be {rule}, not {show(value)}{hint}")
        return value

    return read


def untyped(value: object) -> object:
    """Return the value unread, for a caller that reads it itself."""
    return value
