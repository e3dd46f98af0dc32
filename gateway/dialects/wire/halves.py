"""Halves of characters, which remain where a model's text was cut within an emoji.

JSON may write such a character as two escapes. Most providers and SDKs cannot read one of them alone, and
refuse a request that repeats it, as the gateway does. So a half becomes U+FFFD in translated replies.
"""

from __future__ import annotations

import re
from typing import Final

_HEX: Final = "[0-9a-fA-F]"
_FIRST: Final = rf"\\u[dD][89abAB]{_HEX}{{2}}"
_SECOND: Final = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_ALONE: Final = re.compile(
    rf"\\u[dD](?:[89abAB]{_HEX}{{2}}(?!{_SECOND})|(?<!{_FIRST}\\u[dD])[c-fC-F]{_HEX}{{2}})"
)
_OPEN: Final = re.compile(rf"(?:{_FIRST})?(?:\\(?:u{_HEX}{{0,3}})?)?\Z")
"""The end of a text that may continue: an escape that is cut, a first half, or both."""
_OPEN_CHARS: Final = 11
"""Characters of the longest such end: an escape has six, and a cut one up to five."""
_BARE: Final = re.compile("[\ud800-\udfff]")
_BACKSLASH: Final = "\udfff"
"""Stands for an escaped backslash, so that every other backslash begins an escape. No mended text has it."""


def _has_bare(text: str) -> bool:
    return not text.isascii() and _BARE.search(text) is not None


def mend_halves(text: str) -> str:
    """Join the two halves of a character, and replace halves that stand alone."""
    if not _has_bare(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(text: str) -> str:
    """Mend the halves in a JSON text, where they may also be escapes."""
    text = mend_halves(text)
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _show(_ALONE.sub(r"\\ufffd", _hide(text)))


def _hide(text: str) -> str:
    return text.replace("\\\\", _BACKSLASH)


def _show(text: str) -> str:
    return text.replace(_BACKSLASH, "\\\\")


class JsonMender:
    """Mends a JSON text that comes in fragments. An end that the next fragment may continue is held back."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = ""

    def feed(self, fragment: str) -> str:
        """Return the text up to an end that may continue."""
        if not self._waiting and "\\" not in fragment and not _has_bare(fragment):
            return fragment
        text, bare = self._waiting + fragment, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, bare = text[:-1], text[-1]
        text = _hide(mend_halves(text))
        at = text.find("\\", max(len(text) - _OPEN_CHARS, 0))
        ending = _OPEN.search(text, at if at >= 0 else len(text))
        assert ending is not None  # it matches nothing, too
        self._waiting = ending[0] + bare
        return mend_json(_show(text[: ending.start()]))

    def close(self) -> str:
        """Return the rest, as nothing follows."""
        rest, self._waiting = self._waiting, ""
        return mend_json(rest)
