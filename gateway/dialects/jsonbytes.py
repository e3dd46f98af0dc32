"""JSON at the byte level: tolerant reading, and edits that leave all other bytes alone. No I/O."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

_ESCAPE: Final = rb'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})'
STRING_REST: Final = re.compile(rb'[^"\\\x00-\x1f]*(?:' + _ESCAPE + rb'[^"\\\x00-\x1f]*)*"')
"""From inside a JSON string to its closing quote; no match when it is cut or no JSON."""

MAX_DEPTH: Final = 200
"""Of what an upstream sends: beyond it Python's recursion ends, and so does anybody's meaning."""

_MAX_HITS: Final = 4
_NO_BRACKETS: Final = re.compile(rb"[^][{}]+")
_STRINGS: Final = re.compile(rb'"' + rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SEPARATORS = (b'":', b'": ')


def loads_lenient(data: bytes) -> Any:
    """Read what an upstream sent: broken UTF-8 and lone surrogates are theirs, not fatal.

    Raises:
        ValueError: no JSON at all, or nested beyond `MAX_DEPTH`.
    """
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data.decode("utf-8", "replace"))


def _is_too_deep(data: bytes) -> bool:
    """Whether brackets nest beyond `MAX_DEPTH`: each pass takes the innermost pairs away."""
    brackets = _NO_BRACKETS.sub(b"", _STRINGS.sub(b"", data))
    for _ in range(MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return bool(brackets)


def dumps_lenient(value: Any) -> bytes:
    """Write what `loads_lenient` gave, lone surrogates as escapes."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def maybe_splice(text: bytes, key: str, old: str, new: str) -> bytes | None:
    """`text` with the top-level string `key` changed from `old` to `new`, all else untouched.

    `text` holds one JSON object (SSE framing around it does no harm). A hit of `"key":"old"` is
    always a real key, since inside a string its quotes were escaped; one preceded by a backslash
    is the end of another key. Whether it stands at the top level is proven: either no bracket
    opened before it, or the edited text read again has the new value.

    None when the occurrence cannot be found: the caller writes the object anew.
    """
    if old == new:
        return text
    opening = text.find(b"{")
    for separator in _SEPARATORS:
        needle = b'"' + key.encode() + separator + dumps_lenient(old)
        replacement = b'"' + key.encode() + separator + dumps_lenient(new)
        at = text.find(needle, opening)
        for _ in range(_MAX_HITS):
            if at < 0:
                break
            if text[at - 1 : at] != b"\\":
                edited = text[:at] + replacement + text[at + len(needle) :]
                is_only_one = text.find(needle, at + 1) < 0
                if (is_only_one and _is_top_level(text, opening, at)) or _reads(
                    edited, opening, key, new
                ):
                    return edited
            at = text.find(needle, at + 1)
    return None


def _is_top_level(text: bytes, opening: int, at: int) -> bool:
    return text.find(b"{", opening + 1, at) < 0 and text.find(b"[", opening + 1, at) < 0


def _reads(edited: bytes, opening: int, key: str, value: str) -> bool:
    try:
        read = loads_lenient(edited[opening:].rstrip())
    except ValueError:
        return False
    return isinstance(read, dict) and read.get(key) == value


def maybe_replace(
    text: bytes, key: str, old: str, new: str, wanted: dict[str, Any]
) -> bytes | None:
    """`text` with one `"key":"old"`, at whatever depth, changed so that it reads as `wanted`."""
    if old == new:
        return text
    opening = text.find(b"{")
    for separator in _SEPARATORS:
        needle = b'"' + key.encode() + separator + dumps_lenient(old)
        at = text.find(needle, opening)
        for _ in range(_MAX_HITS):
            if at < 0:
                break
            replacement = b'"' + key.encode() + separator + dumps_lenient(new)
            edited = text[:at] + replacement + text[at + len(needle) :]
            if _reads_as(edited[opening:], wanted):
                return edited
            at = text.find(needle, at + 1)
    return None


def _reads_as(edited: bytes, wanted: dict[str, Any]) -> bool:
    try:
        return bool(loads_lenient(edited.rstrip()) == wanted)
    except ValueError:
        return False
