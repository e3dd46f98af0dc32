"""Background tasks, which fail aloud; shares of the loop's turns."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from functools import partial
from itertools import pairwise

import pytest

from gateway.base.turns import (
    LINGERING,
    REST_TURNS,
    TURN_SECONDS,
    Turns,
    find_turns,
    run_apart,
    spawn,
)

SHARE = 8


async def wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def fail() -> None:
    raise KeyError("a bug")


async def test_a_task_that_nobody_holds_runs_to_its_end() -> None:
    """The event loop alone would let it be collected."""
    event = asyncio.Event()
    task = weakref.ref(spawn(wait_for(event), name="kept"))
    await asyncio.sleep(0)
    gc.collect()
    kept = task()
    assert kept is not None
    event.set()
    await kept


async def test_an_error_is_logged_with_the_tasks_name(caplog: pytest.LogCaptureFixture) -> None:
    task = spawn(fail(), name="sweep")
    await asyncio.wait([task])
    (record,) = caplog.records
    assert record.getMessage() == "task sweep failed"
    assert record.exc_info is not None


async def test_a_cancelled_task_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    task = spawn(wait_for(asyncio.Event()), name="chore")
    task.cancel()
    await asyncio.wait([task])
    assert not caplog.records


def test_calls_that_hang_delay_neither_others_nor_the_end() -> None:
    """Those of asyncio's own threads, of which there are at most 32, would delay both."""
    awake = threading.Event()

    async def call() -> None:
        hanging = [run_apart(awake.wait) for _ in range(64)]
        assert await run_apart(lambda: "an answer") == "an answer"
        with pytest.raises(KeyError, match="an error"):
            await run_apart(lambda: dict[str, str]()["an error"])
        assert not any(one.done() for one in hanging)

    asyncio.run(call())
    assert not awake.is_set()
    awake.set()


def work_long(done: list[str], name: str) -> None:
    done.append(name)
    time.sleep(TURN_SECONDS)


async def test_an_owner_begins_so_much_in_a_turn_and_others_are_not_affected() -> None:
    turns = find_turns()
    assert [turns.may_begin("a") for _ in range(SHARE + 1)] == [True] * SHARE + [False]
    assert turns.may_begin("b")
    await asyncio.sleep(0)
    assert turns.may_begin("a")
    # Bytes that are thrown away hold back nobody's deadline.
    turns.defer(LINGERING, list)
    assert not turns.has_work()
    turns.defer("a", list)
    assert turns.has_work()


async def test_long_work_is_done_in_turns_and_fair_by_owner() -> None:
    """One owner's hundred pieces make another wait for two turns, not for a hundred."""
    turns, done = Turns(asyncio.get_running_loop()), list[str]()
    for _ in range(100):
        turns.defer("busy", partial(work_long, done, "busy"))
    turns.defer("other", partial(work_long, done, "other"))
    waited = 0
    while "other" not in done:
        began = len(done)
        await asyncio.sleep(0)
        waited += 1
        assert len(done) - began <= 1, "a turn has time for one"
    assert done == ["busy", "other"]
    assert waited <= 3


async def test_what_tasks_do_for_milliseconds_is_spread_over_turns_and_fair() -> None:
    """One that is cancelled takes nobody's turn."""
    loop, failures, done = asyncio.get_running_loop(), list[object](), list[str]()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    turns = Turns(loop)

    async def work(owner: str) -> None:
        await turns.wait(owner)
        work_long(done, owner)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(owner)) for owner in [*"aaaab", "gone"]]
        while not all(task.done() for task in tasks):
            began = len(done)
            await asyncio.sleep(0)
            assert len(done) - began <= 1
            tasks[-1].cancel()
    assert done.index("b") <= 2
    assert sorted(done) == [*"aaaab"]
    assert not failures


async def test_short_work_is_not_held_back_by_long_work_that_waits() -> None:
    """Fifty bodies that are parsed one a turn made each new connection's head wait for fifty turns."""
    turns, heads, bodies = Turns(asyncio.get_running_loop()), list[str](), list[str]()

    async def parse() -> None:
        await turns.wait("busy")
        work_long(bodies, "body")

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(parse())
        await asyncio.sleep(0)
        for _ in range(SHARE):
            turns.defer("strangers", partial(heads.append, "head"))
        turns.defer("busy", partial(heads.append, "head"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(heads) > SHARE
        assert len(bodies) < 3


async def test_turns_without_long_work_follow_each_with_it() -> None:
    loop = asyncio.get_running_loop()
    turns, bodies, at = Turns(loop), list[str](), list[int]()
    turn = 0

    async def parse() -> None:
        await turns.wait("busy")
        at.append(turn)
        work_long(bodies, "body")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(parse()) for _ in range(4)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            turn += 1
    assert [later - earlier for earlier, later in pairwise(at[1:])] == [REST_TURNS + 1] * 2
