"""Password hashes by scrypt, each with its parameters and salt. No I/O.

    scrypt$15$8$3$SALT$HASH      log2(N), r, p; salt and hash in URL-safe base64

A hash takes about 32 MiB and a quarter of a second, so a running server computes it in
`console/password_hashing`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import unicodedata
from dataclasses import dataclass, field
from typing import Final

LOG2_N: Final = 15
"""The cost of scrypt, with r and p. It is a setting of OWASP's Password Storage Cheat Sheet, as
expensive as N = 2^17, r = 8, p = 1, in a quarter of its memory."""
R: Final = 8
P: Final = 3

SALT_BYTES: Final = 16
"""Random bytes per password, as NIST SP 800-132 asks for."""
HASH_BYTES: Final = 32
"""Bytes of the hash: 256 bits, more than any password has."""
_NAME: Final = "scrypt"
_PARTS: Final = 6
"""Parts of a stored hash: name, log2 N, r, p, salt, hash."""


@dataclass(frozen=True, slots=True)
class _Stored:
    log2_n: int
    r: int
    p: int
    salt: bytes
    hash: bytes = field(repr=False)

    @property
    def cost(self) -> tuple[int, int, int]:
        return self.log2_n, self.r, self.p

    def encode(self) -> str:
        salt, hashed = (base64.urlsafe_b64encode(one).decode() for one in (self.salt, self.hash))
        return "$".join((_NAME, *map(str, self.cost), salt, hashed))


def hash_password(password: str) -> str:
    """Return the hash to store, with a new salt."""
    salt = os.urandom(SALT_BYTES)
    return _Stored(LOG2_N, R, P, salt, _scrypt(password, salt, (LOG2_N, R, P))).encode()


def verify_password(password: str, encoded: str) -> bool:
    stored = _decode(encoded)
    return hmac.compare_digest(_scrypt(password, stored.salt, stored.cost), stored.hash)


def needs_rehash(encoded: str) -> bool:
    """Return whether the hash has other parameters than new ones get."""
    return _decode(encoded).cost != (LOG2_N, R, P)


def make_nobodys_hash() -> str:
    """Return a hash that no password has; verifying it takes as long as any other."""
    return _Stored(LOG2_N, R, P, os.urandom(SALT_BYTES), os.urandom(HASH_BYTES)).encode()


def _scrypt(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    log2_n, r, p = cost
    n = 1 << log2_n
    return hashlib.scrypt(
        # Keyboards and systems write the same letters in different code points.
        unicodedata.normalize("NFC", password).encode(),
        salt=salt,
        n=n,
        r=r,
        p=p,
        maxmem=128 * r * (n + p + 2),  # the memory it needs; OpenSSL's default is too small
        dklen=HASH_BYTES,
    )


def _decode(encoded: str) -> _Stored:
    """Raises ValueError; its message does not contain the stored text."""
    parts = encoded.split("$")
    if len(parts) != _PARTS or parts[0] != _NAME:
        raise ValueError("a stored password is of no known form")
    log2_n, r, p = map(int, parts[1:4])
    salt, hashed = map(base64.urlsafe_b64decode, parts[4:])
    return _Stored(log2_n, r, p, salt, hashed)
