"""A connection with a thread of its own: whole functions run there, and it ends with its block."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from gateway.ledger.sqlite.serving.connections import ConnectionThread


def connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


async def test_functions_run_in_order_on_one_other_thread() -> None:
    async with ConnectionThread.open(connect) as thread:
        first = await thread.run(lambda _: threading.current_thread())
        again = await thread.run(lambda _: threading.current_thread())
    assert first is again is not threading.current_thread()
    assert not first.is_alive()


async def test_errors_reach_who_waits_and_end_nothing() -> None:
    async with ConnectionThread.open(connect) as thread:
        with pytest.raises(sqlite3.OperationalError):
            await thread.run(lambda connection: connection.execute("nonsense"))
        (one,) = await thread.run(lambda it: it.execute("SELECT 1").fetchone())
        assert one == 1


async def test_a_report_comes_on_the_loop_with_the_result_or_the_error() -> None:
    """Also an error that is no Exception: whoever waits for the report must get it."""
    reports: asyncio.Queue[tuple[object, threading.Thread]] = asyncio.Queue()

    def report(result: object) -> None:
        reports.put_nowait((result, threading.current_thread()))

    def fail(_: sqlite3.Connection) -> None:
        raise SystemExit

    async with ConnectionThread.open(connect) as thread:
        thread.start(lambda it: it.execute("SELECT 7").fetchone(), report)
        assert await reports.get() == ((7,), threading.current_thread())
        thread.start(fail, report)
        error, _ = await reports.get()
        assert isinstance(error, SystemExit)
        assert await thread.run(lambda _: 1) == 1, "the thread goes on"


async def test_no_thread_is_left_of_a_connection_that_failed() -> None:
    threads = []

    def fail() -> sqlite3.Connection:
        threads.append(threading.current_thread())
        raise sqlite3.OperationalError("no")

    with pytest.raises(sqlite3.OperationalError, match="no"):
        async with ConnectionThread.open(fail):
            pass
    assert [thread.is_alive() for thread in threads] == [False]
