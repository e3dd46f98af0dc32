"""Background tasks: kept until they end, and not silent when they fail."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from gateway.tasks import spawn


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
