"""A connection with a thread of its own: whole functions run there, and it ends with its block."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from gateway.ledger.sqlite.serving.thread import open_on_thread, run_on_thread


def connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


async def test_functions_run_in_order_on_one_other_thread() -> None:
    async with open_on_thread(connect) as database:
        first = await run_on_thread(database, lambda _: threading.current_thread())
        again = await run_on_thread(database, lambda _: threading.current_thread())
    assert first is again is not threading.current_thread()
    assert not first.is_alive()


async def test_errors_reach_who_waits_and_end_nothing() -> None:
    async with open_on_thread(connect) as database:
        with pytest.raises(sqlite3.OperationalError):
            await run_on_thread(database, lambda connection: connection.execute("nonsense"))
        (one,) = await run_on_thread(database, lambda it: it.execute("SELECT 1").fetchone())
        assert one == 1


async def test_no_thread_is_left_of_a_connection_that_failed() -> None:
    threads = []

    def fail() -> sqlite3.Connection:
        threads.append(threading.current_thread())
        raise sqlite3.OperationalError("no")

    with pytest.raises(sqlite3.OperationalError, match="no"):
        async with open_on_thread(fail):
            pass
    assert [thread.is_alive() for thread in threads] == [False]
