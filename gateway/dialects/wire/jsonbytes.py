"""JSON at the byte level: tolerant reading, bounds on its size, and edits that leave all other bytes alone.

A text of tiny values takes gigabytes once parsed, so their number is limited first. Each request or
reply has one budget for everything parsed of it, including JSON in its strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from itertools import accumulate
from typing import Any, Final

import orjson

from gateway.base.errors import BadRequest, GatewayError, UndeliverableReply
from gateway.base.usage import count_text

MAX_ELEMENTS: Final = 300_000
"""JSON values of a request: six times a long conversation with many tools. orjson, which holds the GIL,
reads this many of the slowest in 14 ms and writes them in 6. A stream's event may have as many."""

MAX_ESCAPES: Final = 2_000_000
"""Backslashes of a text: more than a text of two million tokens has. orjson reads this many in 8 ms and
writes them in 11."""

MAX_WIDE_BYTES: Final = 8 << 20
"""Bytes of text that is not ASCII, counted by pieces: more than two million tokens. orjson reads them in up
to 4 ms per MiB, four times as long as ASCII, such as files in Base64."""

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
    """Return quickly an upper bound of a JSON text's values: at most a member (two strings) per mark."""
    return 3 * len(data.translate(None, _NO_MARKS)) + 1


def has_more_elements(data: bytes | bytearray, most: int) -> bool:
    """Return whether there are more than `most` strings, commas and opening brackets.

    Contents of strings do not count. Every value has one of these marks, except a single number.
    """
    return len(data) > most and count_elements(data, most) > most  # each takes a byte at least


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
    """Return whether pieces of more than `most` bytes together are not ASCII."""
    if len(data) <= most:
        return False
    pieces = (data[at : at + STEP_BYTES] for at in range(0, len(data), STEP_BYTES))
    return sum(len(one) for one in pieces if not one.isascii()) > most


def cut_strings(data: bytes | bytearray) -> Iterator[tuple[int, bytes]]:
    """Cut the strings out of a JSON text, piece by piece: yield their number and the rest.

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
        self._token = _budget.set(self)

    def __exit__(self, *_: object) -> None:
        _budget.reset(self._token)


# Each thread and each task has its own, as they parse at the same time.
_budget: ContextVar[limit_elements | None] = ContextVar("elements", default=None)


def spend_elements(data: bytes) -> None:
    """Subtract a text's values from the budget before parsing it; without a budget, check the limit.

    Raises the budget's error, or UndeliverableReply if there is no budget, as in a stream; also for a
    text of more than `MAX_ESCAPES` or `MAX_WIDE_BYTES`.
    """
    budget = _budget.get()
    if budget is None and len(data) <= MAX_ELEMENTS:
        return  # each value and each escape takes at least a byte
    if has_more_escapes(data, MAX_ESCAPES) or has_more_wide(data, MAX_WIDE_BYTES):
        raise budget.refuse() if budget else refuse_reply()
    if budget is None:
        if has_more_elements(data, MAX_ELEMENTS):
            raise refuse_reply()
        return
    if not _OPENING.match(data, 0, STEP_BYTES):  # spaces without end count as JSON
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


_ESCAPE: Final = rb'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})'
STRING: Final = rb'[^"\\\x00-\x1f]*+(?:' + _ESCAPE + rb'[^"\\\x00-\x1f]*+)*+'
"""The inside of a JSON string."""
STRING_REST: Final = re.compile(STRING + b'"')
"""From inside a JSON string to its closing quote; no match if the string is cut or invalid."""

MAX_DEPTH: Final = 200
"""Levels of nesting in an upstream's JSON: Python's recursion ends at about five times that."""

MAX_HITS: Final = 4
"""Occurrences that are tried. If none matches, the text is parsed and written anew."""
_NO_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
"""The change of depth at each bracket."""
_FORMS: Final = (b'"%b":%b', b'"%b": %b')
"""The two forms of a member: compact, or with a space."""


def maybe_loads(data: bytes) -> Any:
    """Read an upstream's JSON, tolerating broken UTF-8 and lone surrogates.

    None for invalid JSON and nesting beyond `MAX_DEPTH`. Raises as `spend_elements`.
    """
    if len(data) > MAX_ELEMENTS or _budget.get() is not None:
        spend_elements(data)  # else each value and each escape takes a byte at least
    # Counting brackets is cheap, and a text with fewer, or of fewer bytes, cannot nest that deep.
    if len(data) <= 2 * MAX_DEPTH:
        levels = 0
    elif len(data) <= STEP_BYTES:
        levels = data.count(b"[") + data.count(b"{")
    else:
        levels = sum(count_bytes(data, opening, MAX_DEPTH) for opening in (b"[", b"{"))
    if levels > MAX_DEPTH and _is_too_deep(data):
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    # orjson refuses broken UTF-8 and lone surrogates, as of an emoji that was cut in two.
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        return None


def _is_too_deep(data: bytes) -> bool:
    """Return whether brackets nest beyond `MAX_DEPTH`."""
    depth = 0
    for _, rest in cut_strings(data):
        steps = map(_LEVELS.__getitem__, rest.translate(None, _NO_BRACKETS))
        depths = list(accumulate(steps, initial=depth))
        if max(depths) > MAX_DEPTH:
            return True
        depth = depths[-1]
    return False


def dumps_lenient(value: object) -> bytes:
    """Write the result of `maybe_loads`, lone surrogates as escapes."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson writes no lone surrogates; here they become escapes.
        return json.dumps(value, separators=(",", ":")).encode()


def count_text_bytes(escaped: bytes) -> int:
    """Count the UTF-8 bytes that the inside of a JSON string stands for."""
    text = maybe_loads(b'"' + escaped + b'"')
    return len(escaped) if text is None else count_text(text)


def get_object(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a member that should be an object; an empty one for anything else."""
    value = body.get(key)
    return value if type(value) is dict else {}


def get_list(body: Mapping[str, Any], key: str) -> list[Any]:
    """Return a member that should be an array; an empty one for anything else."""
    value = body.get(key)
    return value if type(value) is list else []


def get_text(body: Mapping[str, object], key: str) -> str:
    """Return a member that should be a string; an empty one for anything else."""
    value = body.get(key)
    return value if type(value) is str else ""


def maybe_splice(text: bytes, key: str, old: str, new: str) -> bytes | None:
    """Change the top-level string `key` from `old` to `new`, and leave all other bytes as they are.

    `text` holds one JSON object (SSE framing around it does no harm). Whether an occurrence stands
    at the top level is proven: either it is the only one and no inner object opened before it, or
    the edited text read again has the new value.

    None when the occurrence cannot be found: the caller writes the object anew.
    """
    if old == new:
        return text
    name, was, is_now = key.encode(), dumps_lenient(old), dumps_lenient(new)
    for form in _FORMS:
        needle = form % (name, was)
        head, found, rest = text.partition(needle)
        is_top_level = head.count(b"{") == 1 and head[-1:] != b"\\"  # else it ends another key
        # The usual case needs no parsing: one occurrence, and no inner object before it.
        if found and is_top_level and needle not in rest:
            return head + form % (name, is_now) + rest
    edits = _iter_edits(text, key, old, new)
    return next((one for one, read in edits if type(read) is dict and read.get(key) == new), None)


def maybe_replace(
    text: bytes, key: str, old: str, new: str, wanted: dict[str, object]
) -> bytes | None:
    """Change one string `key`, at any depth, from `old` to `new`, so that `text` reads as `wanted`."""
    if old == new:
        return text
    return next((one for one, read in _iter_edits(text, key, old, new) if read == wanted), None)


def _iter_edits(text: bytes, key: str, old: str, new: str) -> Iterator[tuple[bytes, object]]:
    """Find `"key":"old"` and yield `text` with it changed, and as what it reads, for each place.

    A hit is always a key or its end, since inside a string its quotes were escaped.
    """
    opening = text.find(b"{")
    name, was, is_now = key.encode(), dumps_lenient(old), dumps_lenient(new)
    for form in _FORMS:
        needle, replacement = form % (name, was), form % (name, is_now)
        at = text.find(needle, opening)
        for _ in range(MAX_HITS):
            if at < 0:
                break
            edited = text[:at] + replacement + text[at + len(needle) :]
            yield edited, maybe_loads(edited[opening:].rstrip())
            at = text.find(needle, at + 1)
