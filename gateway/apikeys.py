"""Service keys: their shape, their checksum, their digest (reliability.md §4). No I/O.

A key is `sk-ru-`, 32 random base62 characters (190 bits) and 6 base62 characters of the CRC-32 of
what precedes, so a mistyped or made-up key is refused without a look-up. What is kept is the
SHA-256: 190 random bits need no slow hash.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from typing import Final

PREFIX: Final = "sk-ru-"
ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_CHARS: Final = 32
CHECKSUM_CHARS: Final = 6

_VALUES: Final = {char: value for value, char in enumerate(ALPHABET)}
_SHAPE = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_CHARS + CHECKSUM_CHARS}}}")


def make_key() -> str:
    """A new key. It exists only in what this returns: nothing keeps it."""
    body = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARS))
    return body + _checksum(body)


def is_well_formed(key: str) -> bool:
    """Whether shape and checksum are right; says nothing of whether the key exists."""
    if not _SHAPE.fullmatch(key):
        return False
    number = 0
    for char in key[-CHECKSUM_CHARS:]:
        number = number * len(ALPHABET) + _VALUES[char]
    return number == zlib.crc32(key[:-CHECKSUM_CHARS].encode())


def display(last4: str) -> str:
    """Such as `sk-ru-…a1b2`: enough to tell keys apart."""
    return f"{PREFIX}…{last4}"


def digest(key: str) -> bytes:
    """The 32 bytes by which a key is stored and looked up."""
    return hashlib.sha256(key.encode()).digest()


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    digits = []
    for _ in range(CHECKSUM_CHARS):
        number, remainder = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[remainder])
    return "".join(reversed(digits))
