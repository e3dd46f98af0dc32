"""Threads for password hashes: few, of a low priority, with a queue that ends."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from gateway.extras.signins.hasher import AT_ONCE, MAX_PENDING, Busy, PasswordHasher


async def test_two_at_once_and_a_queue_that_ends() -> None:
    """Cancelled requests still count until their hash is done, as it still uses memory."""
    running, most = 0, 0
    lock, gate = threading.Lock(), threading.Event()
    loop, both = asyncio.get_running_loop(), asyncio.Event()

    def work() -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == AT_ONCE:
                loop.call_soon_threadsafe(both.set)
        gate.wait(10)
        with lock:
            running -= 1
        return "done"

    hasher = PasswordHasher()
    tasks = [loop.create_task(hasher._run(work)) for _ in range(MAX_PENDING)]
    await asyncio.wait_for(both.wait(), 10)
    assert hasher.is_busy
    with pytest.raises(Busy, match="Too many people"):
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
        monkeypatch.setattr(f"gateway.extras.signins.passwords.{work}", lambda *_: gate.wait(10))
    hasher = PasswordHasher()
    start = asyncio.get_running_loop().create_task
    tasks = [start(hasher.hash("x")), start(hasher.verify("x", None))]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*tasks) == [True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own there")
async def test_hashes_give_way_to_callers() -> None:
    def read() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = read()
    assert await PasswordHasher()._run(read) == max(before, 10)
    assert read() == before


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own there")
async def test_a_lower_priority_stays_as_it_is() -> None:
    """Only root may raise one: with `Nice=15` in the unit nobody could sign in."""
    code = (
        "import asyncio, os; from gateway.extras.signins.hasher import PasswordHasher;"
        "print(asyncio.run(PasswordHasher()._run(lambda: os.getpriority(os.PRIO_PROCESS, 0))))"
    )
    process = await asyncio.create_subprocess_exec(
        "nice", "-n", "19", sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert (await process.communicate())[0] == b"19\n"
