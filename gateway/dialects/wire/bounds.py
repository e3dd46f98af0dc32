"""Bounds on the size of JSON, counted on its bytes before it is parsed.

A text of tiny values takes gigabytes once parsed, so their number is limited first. Each request or
reply has one budget for everything parsed of it, including JSON in its strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

from gateway.base.errors import BadRequest, GatewayError, UndeliverableReply

MAX_ELEMENTS: Final = 300_000
"""JSON values of a request: six times a long conversation with many tools. orjson, which holds the GIL,
reads this many of the slowest in 14 ms and writes them in 6. A stream's event may have as many."""

MAX_ESCAPES: Final = 2_000_000
"""Backslashes of a text: more than a text of two million tokens has. orjson reads this many in 8 ms and
writes them in 11."""

MAX_WIDE_BYTES: Final = 8 << 20
"""Bytes of pieces of a text that are not ASCII: more than two million tokens have. orjson needs up to 4 ms
per MiB of them, four times as long as for ASCII, such as files in Base64."""

STEP_BYTES: Final = 1 << 16
"""Bytes of a string that one call scans while holding the GIL, for less than 1 ms."""

PIECE_BYTES: Final = 1 << 14
"""Bytes whose strings one call cuts out: at most 0.5 ms."""

_NO_MARKS: Final = bytes(sorted(set(range(256)) - set(b",[{")))
"""All bytes but commas and opening brackets."""
_STRING_PART: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_OPENING: Final = re.compile(rb"\s*+(?:[\[{]|\Z)")
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_CLOSED: Final = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+', re.DOTALL)
_BACKSLASH: Final = ord("\\")


def bound_elements(data: bytes | bytearray) -> int:
    """Return a quick upper bound of a JSON text's values: a mark brings at most a member (two strings)."""
    return 3 * len(data.translate(None, _NO_MARKS)) + 1


def has_more_elements(data: bytes | bytearray, most: int) -> bool:
    """Return whether there are more than `most` strings, commas and opening brackets.

    Contents of strings do not count. Every value has one of these marks, except a single number.
    """
    return len(data) > most and count_elements(data, most) > most  # each one takes at least a byte


def count_elements(data: bytes | bytearray, most: int) -> int:
    """Count strings, and commas and opening brackets outside of them, until there are more than `most`."""
    elements = 0
    for strings, rest in cut_strings(data):
        elements += strings + len(rest.translate(None, _NO_MARKS))
        if elements > most:
            break
    return elements


def count_bytes(data: bytes | bytearray, byte: bytes, most: int) -> int:
    """Count a byte until there are more than `most`. The GIL is released between pieces."""
    count = 0
    for at in range(0, len(data), STEP_BYTES):
        count += data.count(byte, at, at + STEP_BYTES)
        if count > most:
            break
    return count


def has_more_escapes(data: bytes | bytearray, most: int) -> bool:
    """Return whether there are more than `most` backslashes."""
    return len(data) > most and count_bytes(data, b"\\", most) > most


def has_more_wide(data: bytes | bytearray, most: int) -> bool:
    """Return whether the pieces of a text that are not ASCII have more than `most` bytes together."""
    if len(data) <= most:
        return False
    pieces = (data[at : at + STEP_BYTES] for at in range(0, len(data), STEP_BYTES))
    return sum(len(one) for one in pieces if not one.isascii()) > most


def cut_strings(data: bytes | bytearray) -> Iterator[tuple[int, bytes]]:
    """Cut the strings out of a JSON text. Yield, for each piece, their number and the remaining bytes.

    The GIL is released between pieces.
    """
    position = 0
    while position < len(data):
        stop = min(position + PIECE_BYTES, len(data))
        closed = _CLOSED.match(data, position, stop)
        assert closed is not None  # it matches nothing, too
        # Only closed strings are searched: after an unclosed quote, the search would start again at each
        # escaped quote and take quadratic time.
        rest, strings = _STRINGS.subn(b"", closed[0])
        position = closed.end()
        if position < stop:  # at a string that continues after the piece
            position = _find_string_end(data, position + 1)
            strings += 1
        yield strings, rest


class limit_elements:  # noqa: N801 - a context, as contextlib's are
    """Gives everything parsed in a context one shared budget of values.

    Exceeding it raises the error that `refuse` makes.
    """

    __slots__ = ("_token", "left", "refuse")

    def __init__(self, most: int, refuse: Callable[[], GatewayError]) -> None:
        self.left = most
        self.refuse = refuse

    def __enter__(self) -> None:
        self._token = budget_of_context.set(self)

    def __exit__(self, *_: object) -> None:
        budget_of_context.reset(self._token)


# Each thread and each task has its own budget, as they parse at the same time.
budget_of_context: ContextVar[limit_elements | None] = ContextVar("elements", default=None)


def spend_elements(data: bytes) -> None:
    """Subtract a text's values from the budget before parsing it; without a budget, check the limit.

    Raises the budget's error, or UndeliverableReply if there is no budget, as in a stream; also for a
    text of more than `MAX_ESCAPES` or `MAX_WIDE_BYTES`.
    """
    budget = budget_of_context.get()
    if budget is None and len(data) <= MAX_ELEMENTS:
        return  # each value and each escape takes at least a byte
    if has_more_escapes(data, MAX_ESCAPES) or has_more_wide(data, MAX_WIDE_BYTES):
        raise budget.refuse() if budget else refuse_reply()
    if budget is None:
        if has_more_elements(data, MAX_ELEMENTS):
            raise refuse_reply()
        return
    if not _OPENING.match(data, 0, STEP_BYTES):  # nothing but spaces counts as JSON
        return  # a single value, or no JSON
    budget.left -= count_elements(data, budget.left)
    if budget.left < 0:
        raise budget.refuse()


def refuse_reply() -> UndeliverableReply:
    """Make the error for a reply, or an event, that takes too long to parse."""
    return UndeliverableReply(
        "The upstream provider's reply has too many JSON values or escapes, or too much text."
    )


def refuse_elements() -> BadRequest:
    """Make the refusal of a request whose strings have too many values."""
    return BadRequest(
        f"The request has more than {MAX_ELEMENTS:,} JSON values, counting those in strings, such as"
        " the arguments of tool calls."
    )


def _find_string_end(data: bytes | bytearray, start: int) -> int:
    """Return the index after a string's closing quote; escaped quotes belong to the string."""
    quote = data.find(b'"', start)
    if quote < 0:
        return len(data)
    # Nearly all strings end this way; only a quote that may be escaped needs the pattern.
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
