"""Service keys and request ids: format, checksum, digest. No I/O.

A key is `sk-ru-`, 32 random base62 characters (190 bits) and 6 base62 characters of the CRC-32 of
everything before them (as in GitHub's tokens), so a mistyped or made-up key is refused without a
look-up. The ledger stores only the SHA-256. Unlike passwords, keys need no slow hash: 190 random bits
cannot be guessed.

A request id is `req_`, the time in milliseconds as 12 hex digits and 64 random bits as 16. Ids sort by
time. So the ledger appends its rows, and a range of time is a range of ids.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import secrets
import string
import zlib
from typing import Final

PREFIX: Final = "sk-ru-"
ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_CHARS: Final = 32
"""Random characters of a key: 190 bits, which cannot be guessed."""
CHECKSUM_CHARS: Final = 6
"""Characters of the checksum: base 62 writes 32 bits in six."""

SHOWN_CHARS: Final = 4
"""The last characters, which are shown to tell keys apart."""
LEAST_HIDDEN_CHARS: Final = 12
"""Characters that must stay hidden. Of shorter secrets none is shown, as four would be too many."""

ADOPTED: Final = "kept"
"""The beginning of the ids of keys that callers had from another gateway, so without our prefix."""

_BASE: Final = len(ALPHABET)
_KEY_SHAPE = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_CHARS + CHECKSUM_CHARS}}}")


def make_key() -> str:
    """Return a new key. It is stored nowhere."""
    body = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARS))
    return body + _checksum(body)


def is_well_formed(key: str) -> bool:
    """Return whether format and checksum are right; the key need not exist."""
    is_shaped = _KEY_SHAPE.fullmatch(key) is not None
    # Not a comparison of secrets: anybody can compute a checksum.
    return is_shaped and key[-CHECKSUM_CHARS:] == _checksum(key[:-CHECKSUM_CHARS])


def find_last4(secret: str) -> str | None:
    """Return the last four characters of a secret, which may be shown.

    The result is None for a short secret: at least twelve characters must stay hidden.
    """
    hidden_chars = len(secret) - SHOWN_CHARS
    return secret[-SHOWN_CHARS:] if hidden_chars >= LEAST_HIDDEN_CHARS else None


def display(last4: str, key_id: str = "") -> str:
    """Return a text such as `sk-ru-…a1b2`, by which people tell keys apart; `…a1b2` of an adopted one."""
    return f"{'' if key_id.startswith(ADOPTED) else PREFIX}…{last4}"


def digest(key: str) -> bytes:
    """Return the 32 bytes by which a key is stored and looked up. Any text is accepted."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _checksum(text: str) -> str:
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_CHARS):
        digits = ALPHABET[number % _BASE] + digits
        number //= _BASE
    return digits


_random: Final = random.Random(os.urandom(32))  # noqa: S311 - ids are names, not secrets
_REQUEST_SHAPE: Final = re.compile("req_[0-9a-f]{28}")


def make_request_id(now_ms: int) -> str:
    return f"req_{now_ms:012x}{_random.getrandbits(64):016x}"


def is_request_id(text: str) -> bool:
    """Return whether the text has the format of a request id; the request need not exist."""
    return _REQUEST_SHAPE.fullmatch(text) is not None


def find_first_id(ms: int) -> str:
    """Return the lower bound of the ids of all requests that began at `ms` or later."""
    return f"req_{ms:012x}"
