"""Codes that people type, such as `ABCD-EFGH-JKLM-NPQR`: made, read as typed, and stored as digests."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

ALPHABET: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without 0, O, 1 and I, which people confuse."""
GROUPS: Final = 4
"""Groups of characters in a code, with hyphens between them, so that people can copy it by eye."""
GROUP_CHARS: Final = 4
"""Characters of a group. Four groups have 80 random bits, so guessing is hopeless."""

_SYMBOLS: Final = re.compile(f"[{ALPHABET}]+")
_BETWEEN: Final = re.compile(r"[\s\-\u2010-\u2015]")
"""Spaces, hyphens, and the dashes that word processors put in place of a hyphen."""


def read_code(text: str, groups: int = GROUPS) -> str | None:
    """Return the code that somebody typed, without dashes; None if it cannot be one."""
    code = _BETWEEN.sub("", text).upper()
    is_code = len(code) == groups * GROUP_CHARS and _SYMBOLS.fullmatch(code)
    return code if is_code else None


def digest_code(code: str) -> bytes:
    """Return the SHA-256 by which a code is stored; dashes do not matter."""
    return hashlib.sha256(code.replace("-", "").encode()).digest()


def make_code(groups: int = GROUPS) -> str:
    return "-".join(
        "".join(secrets.choice(ALPHABET) for _ in range(GROUP_CHARS)) for _ in range(groups)
    )
