"""Passwords are hashed by scrypt with stored parameters, at most two at a time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import sys
import threading

import pytest

from gateway.admin.passwords import hash_password, make_nobodys_hash, needs_rehash, verify_password
from gateway.console.password_hashing import AT_ONCE, MAX_PENDING, PasswordHasher, TooBusy

PASSWORD = "correct horse battery"
STORED = hash_password(PASSWORD)


@pytest.fixture
def password_cost() -> None:
    """Most of these tests are about the real cost."""


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


@pytest.mark.parametrize("stored", ["", "x", "bcrypt$15$8$3$AAAA$AAAA", "scrypt$15$8$AAAA$AAAA"])
def test_another_form_is_an_error_that_tells_nothing(stored: str) -> None:
    with pytest.raises(ValueError, match="no known form"):
        verify_password(PASSWORD, stored)


def test_nobodys_hash_costs_the_same() -> None:
    assert not needs_rehash(make_nobodys_hash())
    assert make_nobodys_hash() != make_nobodys_hash()


@pytest.mark.usefixtures("cheap_passwords")
async def test_the_hasher_knows_passwords_and_nobodys() -> None:
    hasher = PasswordHasher()
    stored = await hasher.hash(PASSWORD)
    assert await hasher.verify(PASSWORD, stored)
    assert not await hasher.verify("another", stored)
    assert not await hasher.verify(PASSWORD, None)


async def test_two_at_once_and_a_queue_that_ends() -> None:
    """Cancelled requests still count until their hash is done, as it still uses memory."""
    running, most = 0, 0
    lock, gate = threading.Lock(), threading.Event()

    def work() -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(10)
        with lock:
            running -= 1
        return "done"

    hasher = PasswordHasher()
    start = asyncio.get_running_loop().create_task
    tasks = [start(hasher._run(work)) for _ in range(MAX_PENDING)]
    await asyncio.sleep(0)
    assert hasher.is_busy
    with pytest.raises(TooBusy):
        await hasher.hash("x")
    for task in tasks[: MAX_PENDING // 2]:
        task.cancel()
    gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results.count("done") == MAX_PENDING // 2
    assert most == AT_ONCE
    assert not hasher.is_busy


async def test_the_loop_goes_on_while_passwords_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash ends only once the loop did something else meanwhile."""
    gate = threading.Event()
    for work in ("hash_password", "verify_password"):
        monkeypatch.setattr(f"gateway.admin.passwords.{work}", lambda *_: gate.wait(10))
    hasher = PasswordHasher()
    start = asyncio.get_running_loop().create_task
    tasks = [start(hasher.hash("x")), start(hasher.verify("x", None))]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*tasks) == [True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own there")
async def test_hashes_give_way_to_callers() -> None:
    hasher = PasswordHasher()
    nice = await hasher._run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    assert nice == 19
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) < 19
