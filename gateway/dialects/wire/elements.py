"""The number of values in a JSON text, bounded without parsing: a text of tiny ones takes gigabytes.

A request, or a reply, has one budget for all that is parsed of it, and so for JSON in its strings, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

from gateway.errors import BadRequest, GatewayError, UndeliverableReply

MAX_ELEMENTS: Final = 300_000
"""JSON values of a request: six times a long conversation with many tools. orjson, which lets no other
thread run, reads the slowest of so many in 14 ms and writes them in 6. A stream's event may have as
many."""

STEP_BYTES: Final = 1 << 18
"""Bytes of a string that one call looks at: no other thread runs meanwhile, which is below 1 ms."""

PIECE_BYTES: Final = 1 << 14
"""Bytes whose strings one call cuts out: at most 0.5 ms."""

_NO_MARKS: Final = bytes(sorted(set(range(256)) - set(b",[{")))
_STRING_PART: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_OPENING: Final = re.compile(rb"\s*+[\[{]")
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BACKSLASH: Final = ord("\\")


def count_marks(data: bytes | bytearray) -> int:
    """Count commas and opening brackets, also those in strings."""
    return len(data.translate(None, _NO_MARKS))


def bound_elements(data: bytes | bytearray) -> int:
    """Return at least how many values a JSON text has, fast: a member has a mark and two strings."""
    return 3 * count_marks(data) + 1


def has_more_elements(data: bytes | bytearray, most: int) -> bool:
    """Return whether there are more than `most` strings, commas and opening brackets.

    What is in strings does not count. No value is without one of these, but a single number.
    """
    return len(data) > most and count_elements(data, most) > most  # each takes a byte at least


def count_elements(data: bytes | bytearray, most: int) -> int:
    """Count strings, and commas and opening brackets outside of them, until there are more than `most`."""
    elements = 0
    for strings, rest in cut_strings(data):
        elements += strings + count_marks(rest)
        if elements > most:
            break
    return elements


def cut_strings(data: bytes | bytearray) -> Iterator[tuple[int, bytes]]:
    """Cut the strings out of a JSON text, piece by piece: yield how many there were, and the rest.

    The lock that lets one thread run at a time is free between pieces.
    """
    position = 0
    while position < len(data):
        piece = data[position : position + PIECE_BYTES]
        rest, strings = _STRINGS.subn(b"", piece)
        position += len(piece)
        quote = rest.find(b'"')
        if quote >= 0:  # of a string that goes on behind the piece
            position = _find_string_end(data, position - len(rest) + quote + 1)
            rest, strings = rest[:quote], strings + 1
        yield strings, rest


class limit_elements:  # noqa: N801 - a context, as contextlib's are
    """Gives everything that is parsed in a context one budget of values.

    What exceeds it raises the error that `refuse` makes.
    """

    __slots__ = ("_token", "left", "refuse")

    def __init__(self, most: int, refuse: Callable[[], GatewayError]) -> None:
        self.left = most
        self.refuse = refuse

    def __enter__(self) -> None:
        self._token = _budget.set(self)

    def __exit__(self, *_: object) -> None:
        _budget.reset(self._token)


_budget: ContextVar[limit_elements | None] = ContextVar("elements", default=None)


def spend_elements(data: bytes) -> None:
    """Take the values of a text that is about to be parsed from the budget, or else hold it to the most.

    Raises the budget's error, and UndeliverableReply where there is none, as in a stream.
    """
    budget = _budget.get()
    if budget is None:
        if has_more_elements(data, MAX_ELEMENTS):
            raise UndeliverableReply("The upstream provider's reply has too many JSON values.")
        return
    if not _OPENING.match(data):
        return  # a single value, or no JSON
    budget.left -= count_elements(data, budget.left)
    if budget.left < 0:
        raise budget.refuse()


def refuse_elements() -> BadRequest:
    """Make the refusal of a request whose strings have too many values."""
    return BadRequest(
        f"The request has more than {MAX_ELEMENTS:,} JSON values, counting those in strings, such as"
        " the arguments of tool calls."
    )


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
