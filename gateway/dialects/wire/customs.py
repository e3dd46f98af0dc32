"""Custom tools, which take free text, as functions with one string argument, if a provider has no others.

The free text is decoded while the function's arguments come: a patch of a thousand lines takes minutes,
and callers give up a stream in which nothing happens.
"""

from __future__ import annotations

import json
import re
from typing import Final

from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.halves import JsonMender
from gateway.dialects.wire.jsonbytes import maybe_loads
from gateway.dialects.wire.records import Json

INPUT_KEY: Final = "input"
"""The argument of a custom tool's function."""
INPUT_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {INPUT_KEY: {"type": "string"}},
    "required": [INPUT_KEY],
    "additionalProperties": False,
}
MAX_OPENING_CHARS: Final = 64
"""Characters before the text: brace, key and white space have about ten."""

_OPENING: Final = re.compile(r'\s*\{\s*"' + INPUT_KEY + r'"\s*:\s*"')
_DECODABLE: Final = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?:[0-9a-fA-F]{4}|(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])))*+'
)
"""The inside of a string up to its end, or to an escape that is cut. A backslash that begins no valid escape
matches, too, and is kept as it is."""


def make_function(tool: Field) -> Json:
    """Write a custom tool as a function. Raises BadRequest, naming the field that is wrong."""
    function: Json = {"name": tool["name"].read_text()}
    description = tool["description"].read_string() if tool.get("description") else ""
    text = "\n\n".join(filter(None, (description, _describe_format(tool["format"]))))
    return {**function, **({"description": text} if text else {}), "parameters": INPUT_SCHEMA}


def _describe_format(form: Field) -> str:
    """Say in words what a grammar demands of the input: a function cannot enforce it."""
    if form.value is None or form.get("type") != "grammar":
        return ""
    form = form if form.get("grammar") is None else form["grammar"]  # chat's has it within
    syntax, definition = form["syntax"].read_text(), form["definition"].read_text()
    return f"`{INPUT_KEY}` must match this {syntax} grammar:\n{definition}"


def read_input(arguments: str) -> str:
    """Read the text of a whole call."""
    decoder = InputDecoder()
    return decoder.feed(arguments) + decoder.close()


class InputDecoder:
    """Takes fragments of arguments; returns the text as far as it can be decoded."""

    __slots__ = ("_buffer", "_buffered_chars", "_ended", "_mender", "_opened")

    def __init__(self) -> None:
        self._buffer: list[str] = []
        """The fragments not decoded yet: all before the text begins, then at most an escape that is cut."""
        self._buffered_chars = 0
        self._mender = JsonMender()
        self._opened = False
        self._ended = False

    def feed(self, fragment: str) -> str:
        if self._ended or not (fragment := self._mender.feed(fragment)):
            return ""
        waited, self._buffered_chars = self._buffered_chars, self._buffered_chars + len(fragment)
        self._buffer.append(fragment)
        if not self._opened and waited > MAX_OPENING_CHARS:
            return ""  # joining and matching again with each fragment would take quadratic time
        text = "".join(self._buffer)
        if not self._opened:
            opening = _OPENING.match(text)
            if opening is None:
                return ""
            self._opened = True
            text = text[opening.end() :]
        found = _DECODABLE.match(text)
        assert found is not None  # it matches nothing, too
        rest = text[found.end() :]
        self._buffer, self._buffered_chars = [rest], len(rest)
        self._ended = rest.startswith('"')
        return _decode(found[0])

    def close(self) -> str:
        """Return the rest. If no text began, return the input in the JSON, or else all arguments."""
        text = "".join(self._buffer) + self._mender.close()
        self._buffer.clear()
        if self._opened or not text:
            return "" if self._ended else _decode(text)
        read = maybe_loads(text.encode())
        if isinstance(read, dict):
            read = read.get(INPUT_KEY)
        return read if isinstance(read, str) else text


def _decode(inside: str) -> str:
    try:
        return str(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        return inside
