"""JSON at the byte level: tolerant reading, edits that leave all other bytes alone, replies without the bill."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from operator import is_not
from typing import Any, Final

import orjson

from gateway.base.usage import count_text
from gateway.dialects.wire import bounds

_ESCAPE: Final = rb'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})'
STRING: Final = rb'[^"\\\x00-\x1f]*+(?:' + _ESCAPE + rb'[^"\\\x00-\x1f]*+)*+'
"""The inside of a JSON string."""
STRING_REST: Final = re.compile(STRING + b'"')
"""From inside a JSON string to its closing quote; no match if the string is cut or invalid."""

MAX_DEPTH: Final = 200
"""Levels of nesting in an upstream's JSON: Python's recursion ends at about five times that."""

MAX_HITS: Final = 4
"""Occurrences of a member that are tried: if none matches, the object is written anew."""
_NO_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
"""The change of depth at each bracket."""
_FORMS: Final = (b'"%b":%b', b'"%b": %b')
"""The two forms of a member: compact, or with a space."""


def maybe_loads(data: bytes) -> Any:
    """Read an upstream's JSON, tolerating broken UTF-8 and lone surrogates.

    None for invalid JSON and nesting beyond `MAX_DEPTH`. Raises as `spend_elements`.
    """
    if len(data) > bounds.MAX_ELEMENTS or bounds.budget_of_context.get() is not None:
        # Shorter data cannot exceed a limit: each value takes at least a byte.
        bounds.spend_elements(data)
    # Counting brackets is cheap, and a text with fewer, or of fewer bytes, cannot nest that deep.
    if len(data) <= 2 * MAX_DEPTH:
        levels = 0
    elif len(data) <= bounds.STEP_BYTES:
        levels = data.count(b"[") + data.count(b"{")
    else:
        levels = sum(bounds.count_bytes(data, opening, MAX_DEPTH) for opening in (b"[", b"{"))
    if levels > MAX_DEPTH and _is_too_deep(data):
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    # orjson refuses broken UTF-8 and lone surrogates, such as half of an emoji.
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        return None


def _is_too_deep(data: bytes) -> bool:
    """Return whether brackets nest beyond `MAX_DEPTH`."""
    depth = 0
    for _, rest in bounds.cut_strings(data):
        steps = map(_LEVELS.__getitem__, rest.translate(None, _NO_BRACKETS))
        depths = list(accumulate(steps, initial=depth))
        if max(depths) > MAX_DEPTH:
            return True
        depth = depths[-1]
    return False


def dumps_lenient(value: object) -> bytes:
    """Write a value that `maybe_loads` returned, with lone surrogates as escapes."""
    try:
        return orjson.dumps(value)
    except TypeError:
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
    """For each place of `"key":"old"`, yield `text` with that place changed, and the result of parsing it.

    A hit is always a key or the end of one: inside a string its quotes would be escaped.
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


def hide_bill(told: dict[str, Any], text: bytes) -> dict[str, Any]:
    """Return a reply, a chunk or an event without its provider's bill, which only operators may see.

    The same object if it has none; `text` are its bytes.
    """
    for word in _MAY_TELL:
        if word in text:
            shown: dict[str, Any] = _hide(told)
            return shown
    return told


def edit_model(text: bytes, reply: dict[str, Any], ours: str) -> bytes:
    """Write a reply with our name of the model and without the bill, keeping its bytes if possible."""
    shown = hide_bill(reply, text)
    # Bytes are edited only if there is no bill to hide; otherwise the reply is written anew.
    model = reply.get("model") if shown is reply else None
    out = maybe_splice(text, "model", model, ours) if type(model) is str else None
    return out or dumps_lenient({**shown, "model": ours})


_MAY_TELL: Final = (b"cost", b"Cost", b"pric", b"Pric", b"byok", rb"\u00")
"""Every bill has one of these in its bytes. The escape is for names with an escaped letter."""
_TELLS: Final = re.compile(r"[Cc]ost|[Pp]ric|byok")
"""Matches the names of a bill's members, such as `total_cost`, `marketCost`, `request_pricing`."""
_DEEP: Final = frozenset({"usage", "provider_metadata", "providerMetadata", "_hidden_params"})
"""Members in which every such name, at any depth, is a bill's."""
_OUTER: Final = frozenset({"choices", "delta", "message", "response", "x_groq"})


def _hide(told: Any, *, deep: bool = False) -> Any:
    if type(told) is list:
        items = [_hide(one, deep=deep) for one in told]
        return items if any(map(is_not, items, told)) else told
    if type(told) is not dict:
        return told
    shown: dict[str, Any] = {}
    for name, value in told.items():
        if not _TELLS.search(name):
            within = deep or name in _DEEP
            shown[name] = _hide(value, deep=within) if within or name in _OUTER else value
    changed = len(shown) < len(told) or any(shown[name] is not told[name] for name in shown)
    return shown if changed else told
