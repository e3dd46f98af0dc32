"""Passwords: which are too easy to guess, and their hashes by scrypt, with parameters and salt.

    scrypt$15$8$3$SALT$HASH      log2(N), r, p; salt and hash in URL-safe base64

A hash takes about 32 MiB and a quarter of a second, so a running server computes it in the
threads of `hasher`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from gateway.extras.signins.records import PERSON_MARK

LOG2_N: Final = 15
"""The cost of scrypt, with r and p. It is a setting of OWASP's Password Storage Cheat Sheet, as
expensive as N = 2^17, r = 8, p = 1, in a quarter of its memory."""
R: Final = 8
P: Final = 3

SALT_BYTES: Final = 16
"""Random bytes per password, as NIST SP 800-132 asks for."""
HASH_BYTES: Final = 32
"""Bytes of the hash: 256 bits, more than any password has."""
MAX_PERIOD: Final = 11
"""The longest pattern whose repetition is refused: a longer one could be a password by itself."""
MIN_RUNS: Final = 4
"""Runs such as `aaaa` or `3456` that a password must at least consist of: three are typed at a stretch."""
MIN_OTHERS: Final = 8
"""Characters that a password must have besides the account's name or a common word: those are guessed
first."""
_ROWS: Final = ("abcdefghijklmnopqrstuvwxyz", "qwertyuiop", "asdfghjkl", "zxcvbnm")
"""The alphabet, and the rows of a keyboard. Digits count up from 9 to 0, too."""
_LEET: Final = str.maketrans("@013457$!", "aoieastsi")
_AROUND: Final = re.compile(r"^[\W\d_]+|[\W\d_]+$")

_NAME: Final = "scrypt"


Cost = tuple[int, int, int]
"""log2(N), r and p of scrypt."""


def find_weakness(password: str, name: str) -> str | None:
    """Return, for people, why a password is easy to guess; None if it is not.

    `name` is the name to sign in with, such as `alice/dana`; no part of it may be most of the password.
    """
    # A common password in other widths or cases is as easy to guess.
    folded, full = (unicodedata.normalize("NFKC", one).casefold() for one in (password, name))
    if _is_pattern(folded):
        return "one pattern that is repeated or counted up"
    parts = {full, *full.split(PERSON_MARK)}
    known = {one for part in parts for one in (part, part[::-1], part.partition("@")[0])}
    for one in known - {""}:
        if folded == one or len(folded.replace(one, "")) < MIN_OTHERS:
            return "the account's name"
    word = _AROUND.sub("", folded)
    for core in (folded, word, word.translate(_LEET)):
        if core in _read_common() and len(folded) - len(core) < MIN_OTHERS:
            return "a common one, also with figures around it"
    return None


def _is_pattern(text: str) -> bool:
    """Return whether a few characters come again and again, the same or counted up or down."""
    for period in range(1, min(MAX_PERIOD, len(text) // 2) + 1):
        steps = [_find_step(*pair) for pair in zip(text, text[period:], strict=False)]
        firsts = steps[:period]
        if None not in firsts and all(step == firsts[at % period] for at, step in enumerate(steps)):
            return True
    runs, last = 1, None
    for before, after in pairwise(text):
        step = _find_step(before, after)
        is_new = step is None or last not in (None, step)
        runs, last = runs + is_new, None if is_new else step
    return runs < MIN_RUNS


def _find_step(before: str, after: str) -> int | None:
    """Return 0 for the same character, 1 or -1 for its neighbours in a row, else None."""
    if before == after:
        return 0
    if before.isdecimal() and after.isdecimal():
        return {1: 1, 9: -1}.get((int(after) - int(before)) % 10)
    for row in _ROWS:
        if before in row and after in row and abs(row.index(after) - row.index(before)) == 1:
            return row.index(after) - row.index(before)
    return None


@lru_cache(maxsize=1)
def _read_common() -> frozenset[str]:
    """Return passwords of 12 characters and more that many people have, and common words."""
    text = Path(__file__).with_name("common_passwords.txt").read_text(encoding="utf-8")
    return frozenset(text.split("\n")) - {""}


def hash_password(password: str) -> str:
    """Return the hash to store, with a new salt."""
    salt = os.urandom(SALT_BYTES)
    return _encode(salt, _scrypt(password, salt, (LOG2_N, R, P)))


def verify_password(password: str, encoded: str) -> bool:
    cost, salt, hashed = _decode(encoded)
    return hmac.compare_digest(_scrypt(password, salt, cost), hashed)


def needs_rehash(encoded: str) -> bool:
    """Return whether the hash has other parameters than new ones get."""
    return _decode(encoded)[0] != (LOG2_N, R, P)


def make_nobodys_hash() -> str:
    """Return a hash that no password has; verifying it takes as long as any other."""
    return _encode(os.urandom(SALT_BYTES), os.urandom(HASH_BYTES))


def _scrypt(password: str, salt: bytes, cost: Cost) -> bytes:
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


def _encode(salt: bytes, hashed: bytes) -> str:
    texts = (base64.urlsafe_b64encode(one).decode() for one in (salt, hashed))
    return "$".join((_NAME, *map(str, (LOG2_N, R, P)), *texts))


def _decode(encoded: str) -> tuple[Cost, bytes, bytes]:
    """Return cost, salt and hash. Raises ValueError; its message does not contain the stored text."""
    match encoded.split("$"):
        case [name, log2_n, r, p, salt, hashed] if name == _NAME:
            cost = int(log2_n), int(r), int(p)
            return cost, base64.urlsafe_b64decode(salt), base64.urlsafe_b64decode(hashed)
        case _:
            raise ValueError("a stored password is of no known form")
