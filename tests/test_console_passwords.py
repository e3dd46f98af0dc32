"""Passwords: scrypt with its parameters, and never more than two at once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import sys
import threading
import time

import pytest

from gateway.console.hasher import AT_ONCE, MAX_PENDING, Hasher, TooBusy
from gateway.passwords import (
    hash_password,
    make_nobodys_hash,
    needs_rehash,
    verify_password,
)

PASSWORD = "correct horse battery"
STORED = hash_password(PASSWORD)


def test_a_password_is_known_again() -> None:
    assert verify_password(PASSWORD, STORED)
    assert not verify_password(PASSWORD + "x", STORED)
    assert not verify_password("", STORED)


def test_what_is_stored_is_scrypt_with_its_parameters_and_salt() -> None:
    """An independent scrypt of the same parameters gives the same 32 bytes."""
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


async def test_the_hasher_knows_passwords_and_nobodys() -> None:
    hasher = Hasher()
    assert await hasher.verify(PASSWORD, await hasher.hash(PASSWORD))
    assert not await hasher.verify("another", STORED)
    assert not await hasher.verify(PASSWORD, None)


async def test_two_at_once_and_a_queue_that_ends() -> None:
    """Even when those who waited have gone: what counts is the work, and its memory."""
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

    hasher = Hasher()
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


async def test_the_loop_goes_on_while_passwords_are_hashed() -> None:
    hasher = Hasher()
    tasks = [asyncio.get_running_loop().create_task(hasher.hash("x")) for _ in range(2)]
    worst = 0.0
    while not all(task.done() for task in tasks):
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        worst = max(worst, time.perf_counter() - before)
    await asyncio.gather(*tasks)
    assert worst < 0.15


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own there")
async def test_hashes_give_way_to_callers() -> None:
    hasher = Hasher()
    nice = await hasher._run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    assert nice == 19
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) < 19
