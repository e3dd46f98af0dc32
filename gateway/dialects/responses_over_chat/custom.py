"""The free text of a custom tool out of the arguments of the function that stands for it.

The text is decoded while the arguments come: a patch of a thousand lines takes minutes, and callers
give up a stream in which nothing happens.
"""

from __future__ import annotations

import json
import re
from typing import Final

from gateway.dialects.responses_over_chat.tools import INPUT_KEY
from gateway.dialects.wire.jsonbytes import maybe_loads

MAX_OPENING_CHARS: Final = 64
"""Characters before the text: braces, the key and white space have some ten."""

_OPENING: Final = re.compile(r'\s*\{\s*"' + INPUT_KEY + r'"\s*:\s*"')
_DECODABLE: Final = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?:[0-9a-fA-F]{4}|(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])))*+'
)
"""The inside of a string up to its end, or to an escape that is cut. What is no escape matches as well:
it is taken as it is written."""
_HIGH_SURROGATES: Final = ("\ud800", "\udbff")
"""First halves of a character, the least and the greatest."""


def read_input(arguments: str) -> str:
    """Read the text of a whole call."""
    decoder = InputDecoder()
    return decoder.feed(arguments) + decoder.close()


class InputDecoder:
    """Takes fragments of arguments, gives the text as far as it can be told."""

    __slots__ = ("_ended", "_half", "_held", "_held_chars", "_opened")

    def __init__(self) -> None:
        self._held: list[str] = []
        """The fragments that are not decoded: all of them, or an escape that is cut."""
        self._held_chars = 0
        self._half = ""
        """The first half of a character whose second is to come."""
        self._opened = False
        self._ended = False

    def feed(self, fragment: str) -> str:
        if self._ended:
            return ""
        waited, self._held_chars = self._held_chars, self._held_chars + len(fragment)
        self._held.append(fragment)
        if not self._opened and waited > MAX_OPENING_CHARS:
            return ""
        held = "".join(self._held)
        if not self._opened:
            opening = _OPENING.match(held)
            if opening is None:
                return ""
            self._opened = True
            held = held[opening.end() :]
        found = _DECODABLE.match(held)
        assert found is not None  # it matches nothing, too
        rest = held[found.end() :]
        self._held, self._held_chars = [rest], len(rest)
        self._ended = rest.startswith('"')
        return self._join(_decode(found[0]))

    def close(self) -> str:
        """Return the rest; all of it, read as JSON if it is any, where no text was found."""
        held = "".join(self._held)
        if self._opened:
            return self._half + ("" if self._ended else _decode(held))
        read = maybe_loads(held.encode("utf-8", "surrogatepass"))
        if isinstance(read, dict):
            read = read.get(INPUT_KEY)
        return read if isinstance(read, str) else held

    def _join(self, text: str) -> str:
        """Put the halves of a character together."""
        if self._half and text:
            pair = (self._half + text[0]).encode("utf-16-le", "surrogatepass")
            text, self._half = pair.decode("utf-16-le", "surrogatepass") + text[1:], ""
        if text and _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
            text, self._half = text[:-1], text[-1]
        return text


def _decode(inside: str) -> str:
    try:
        return str(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        return inside
