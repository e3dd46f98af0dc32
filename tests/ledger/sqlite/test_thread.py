"""The thread of a connection: what it runs, and who gets the results."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from functools import partial

import pytest

from gateway.ledger.sqlite.thread import ConnectionThread


def connect_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


async def test_functions_run_on_one_other_thread_whose_errors_reach_who_waits() -> None:
    async with ConnectionThread.open(connect_memory) as thread:
        first = await thread.run(lambda _: threading.current_thread())
        with pytest.raises(sqlite3.OperationalError):
            await thread.run(lambda connection: connection.execute("nonsense"))
        again = await thread.run(lambda _: threading.current_thread())
    assert first is again is not threading.current_thread()
    assert not first.is_alive()


async def test_a_report_comes_on_the_loop_with_the_result_or_the_error() -> None:
    """Also an error that is no Exception: whoever waits for the report must get it."""
    reports: asyncio.Queue[tuple[object, threading.Thread]] = asyncio.Queue()

    def report(result: object) -> None:
        reports.put_nowait((result, threading.current_thread()))

    def fail(_: sqlite3.Connection) -> None:
        raise SystemExit

    async with ConnectionThread.open(connect_memory) as thread:
        thread.start(lambda it: it.execute("SELECT 7").fetchone(), report)
        assert await reports.get() == ((7,), threading.current_thread())
        thread.start(fail, report)
        error, _ = await reports.get()
        assert isinstance(error, SystemExit)
        assert await thread.run(lambda _: 1) == 1, "the thread goes on"


async def test_reports_come_in_order_whatever_becomes_of_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[object] = []

    def count(number: int, _: sqlite3.Connection) -> int:
        return number

    def fail(_: object) -> None:
        raise ValueError

    async with ConnectionThread.open(connect_memory) as thread:
        for number in range(3):
            thread.start(partial(count, number), fail)
            thread.start(partial(count, number), told.append)
    assert told == [0, 1, 2], "the last one comes before the thread is closed"
    assert len(caplog.records) == 3


async def test_a_wait_that_is_cancelled_loses_and_repeats_nothing() -> None:
    go_on, ran = threading.Event(), list[int]()

    def work(connection: sqlite3.Connection) -> None:
        go_on.wait(30)
        ran.append(connection.total_changes)

    async with ConnectionThread.open(connect_memory) as thread:
        waiting = asyncio.ensure_future(thread.run(work))  # noqa: TID251 - awaited
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        go_on.set()
        await thread.run(lambda _: None)
        assert (ran, waiting.cancelled()) == ([0], True)


async def test_no_thread_is_left_of_a_connection_that_failed() -> None:
    threads = []

    def fail() -> sqlite3.Connection:
        threads.append(threading.current_thread())
        raise sqlite3.OperationalError("no")

    with pytest.raises(sqlite3.OperationalError, match="no"):
        async with ConnectionThread.open(fail):
            pass
    assert [thread.is_alive() for thread in threads] == [False]
