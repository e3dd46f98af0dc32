"""Passwords are hashed by scrypt with stored parameters."""

from __future__ import annotations

import base64
import hashlib
import re
import time

import pytest

from gateway.admin.passwords import (
    find_weakness,
    hash_password,
    make_nobodys_hash,
    needs_rehash,
    verify_password,
)
from tests.support.rows import each_row

PASSWORD = "correct horse battery"
STORED = hash_password(PASSWORD)


def test_a_password_is_known_again() -> None:
    assert verify_password(PASSWORD, STORED)
    assert not verify_password(PASSWORD + "x", STORED)
    assert not verify_password("", STORED)


def test_what_is_stored_is_scrypt_with_its_parameters_and_salt() -> None:
    """Another implementation of scrypt with the same parameters gives the same 32 bytes."""
    assert re.fullmatch(r"scrypt\$15\$8\$3\$[\w-]{22}==\$[\w-]{43}=", STORED)
    *_, salt, hashed = STORED.split("$")
    expected = hashlib.scrypt(
        PASSWORD.encode(),
        salt=base64.urlsafe_b64decode(salt),
        n=2**15,
        r=8,
        p=3,
        maxmem=2**26,
        dklen=32,
    )
    assert base64.urlsafe_b64decode(hashed) == expected


def test_two_hashes_of_one_password_differ() -> None:
    assert hash_password(PASSWORD) != STORED


def test_the_stored_hash_is_no_password() -> None:
    assert not verify_password(STORED, STORED)


def test_letters_are_the_same_however_they_are_composed() -> None:
    assert verify_password("cafe\u0301 au lait", hash_password("caf\u00e9 au lait"))


def test_other_parameters_are_understood_and_renewed() -> None:
    salt = b"s" * 16
    weak = hashlib.scrypt(PASSWORD.encode(), salt=salt, n=2**4, r=8, p=1, dklen=32)
    texts = [base64.urlsafe_b64encode(one).decode() for one in (salt, weak)]
    stored = "$".join(("scrypt", "4", "8", "1", *texts))
    assert verify_password(PASSWORD, stored)
    assert needs_rehash(stored)
    assert not needs_rehash(STORED)


@each_row("stored", ["", "x", "bcrypt$15$8$3$AAAA$AAAA", "scrypt$15$8$AAAA$AAAA"])
def test_another_form_is_an_error_that_tells_nothing(stored: str) -> None:
    with pytest.raises(ValueError, match="no known form"):
        verify_password(PASSWORD, stored)


def test_nobodys_hash_costs_the_same() -> None:
    assert not needs_rehash(make_nobodys_hash())
    assert make_nobodys_hash() != make_nobodys_hash()


@each_row(
    ("password", "weakness"),
    [
        ("x" * 12, "pattern"),
        ("\u20ac" * 341, "pattern"),
        ("abcabcabcabc", "pattern"),
        ("abcabcabcab", "pattern"),
        ("abcdefghijkl", "pattern"),
        ("zyxwvutsrqpo", "pattern"),
        ("123456789012", "pattern"),
        ("987654321098", "pattern"),
        ("aabbccddeeff", "pattern"),
        ("1a2b3c4d5e6f", "pattern"),
        ("010203040506", "pattern"),
        ("aaaaaabbbbbb", "pattern"),
        ("abcdef123456", "pattern"),
        ("QwertyUiopAs", "pattern"),
        ("summer2024summer2025", "pattern"),
        ("passwordpassword", "pattern"),
        ("password1234", "common"),
        ("P@$$w0rd!!!!!", "common"),
        ("123-Monkey-9", "common"),
        ("JustinBieber", "common"),
        ("administrator", "common"),
        ("alice@example.com", "name"),
        ("Alice-2024-!", "name"),
        ("moc.elpmaxe@ecila", "name"),
        ("x alicealice", "name"),
    ],
)
def test_what_is_easy_to_guess_is_found(password: str, weakness: str) -> None:
    assert weakness in (find_weakness(password, "alice@example.com") or "")


@each_row(
    "password",
    [
        PASSWORD,
        "correct horse",
        "another horse",
        "hbgrthxkqaop",
        "Tr0ub4dor&3xyz",
        "malice aforethought",
        "the password is on the wall",
        "пароль из четырёх слов",
        "ab12cd34zz81",
        (PASSWORD * 60)[:1020],
    ],
)
def test_what_is_not_is_let_through(password: str) -> None:
    assert find_weakness(password, "alice@example.com") is None
    assert find_weakness(password, "") is None


def test_the_longest_is_judged_at_once() -> None:
    """Patterns are looked for on the event loop: in a bounded number of steps."""
    began = time.perf_counter()
    for text in ("a" * 1023 + "c", "ab" * 511 + "zz", "abcdefghijk" * 93 + "z"):
        find_weakness(text, "alice")
    assert time.perf_counter() - began < 0.25
