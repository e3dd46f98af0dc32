"""Halves of characters: what is left where a model's text was cut within an emoji.

JSON has such a character as two escapes, and one of them alone is text that most providers and SDKs cannot
read: they refuse a request that repeats it, as the gateway does. So a half becomes U+FFFD in translated replies.
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
"""Characters of such an end: six of an escape, and five of one that lacks its last."""
_BARE: Final = re.compile("[\ud800-\udfff]")
_BACKSLASH: Final = "\udfff"
"""Stands for an escaped backslash, so that each other one begins an escape. No mended text has it."""


def _has_bare(text: str) -> bool:
    return not text.isascii() and _BARE.search(text) is not None


def mend_halves(text: str) -> str:
    """Put the halves of characters together, and replace those that stay alone."""
    if not _has_bare(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(text: str) -> str:
    """Do the same in a text of JSON, where halves may be escapes, too."""
    text = mend_halves(text)
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _show(_ALONE.sub(r"\\ufffd", _hide(text)))


def _hide(text: str) -> str:
    return text.replace("\\\\", _BACKSLASH)


def _show(text: str) -> str:
    return text.replace(_BACKSLASH, "\\\\")


class JsonMender:
    """Mends a text of JSON that comes in fragments. What may continue in the next one waits."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = ""

    def feed(self, fragment: str) -> str:
        """Return what is decided."""
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
