"""The number of values in a JSON text, bounded without parsing: a text of tiny ones takes gigabytes."""

from __future__ import annotations

import re
from typing import Final

STEP_BYTES: Final = 1 << 18
"""Bytes that one call looks at: no other thread runs meanwhile, which is below 1 ms."""

_NO_MARKS: Final = bytes(sorted(set(range(256)) - set(b",[{")))
_STRING_PART: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_BACKSLASH: Final = ord("\\")


def count_marks(data: bytes | bytearray) -> int:
    """Count commas and opening brackets, also those in strings."""
    return len(data.translate(None, _NO_MARKS))


def has_more_elements(data: bytes | bytearray, most: int) -> bool:
    """Return whether there are more than `most` strings, commas and opening brackets.

    What is in strings does not count. No value is without one of these, but a single number.
    """
    if len(data) <= most:
        return False  # each takes a byte at least
    elements = position = 0
    while position < len(data):
        quote = data.find(b'"', position, position + STEP_BYTES)
        end = position + STEP_BYTES if quote < 0 else quote
        elements += count_marks(data[position:end]) + (quote >= 0)
        if elements > most:
            return True
        position = end if quote < 0 else _find_string_end(data, quote + 1)
    return False


def _find_string_end(data: bytes | bytearray, start: int) -> int:
    """Return the index behind the quote that ends a string; escaped quotes are in it."""
    quote = data.find(b'"', start)
    if quote < 0:
        return len(data)
    if data[quote - 1] != _BACKSLASH:
        return quote + 1
    end = start
    while True:
        part = _STRING_PART.match(data, end, end + STEP_BYTES)
        assert part is not None  # it matches nothing, too
        if part[1]:
            return part.end()
        if part.end() == end:
            return len(data)  # cut within an escape
        end = part.end()
