"""A connection with a thread of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar, cast

import aiosqlite

Result = TypeVar("Result")

ROWS_PER_CHUNK: Final = 64
"""A parameter of aiosqlite's cursors, which are not used."""


@asynccontextmanager
async def open_on_thread(
    connector: Callable[[], sqlite3.Connection],
) -> AsyncIterator[aiosqlite.Connection]:
    """Open a connection with a thread of its own, and end both. Raises what `connector` raises."""
    database = aiosqlite.Connection(connector, ROWS_PER_CHUNK)
    try:
        async with database:
            yield database
    finally:
        # After a failure aiosqlite does not wait, and the thread would report to a closed loop.
        thread = database._thread  # noqa: SLF001
        if thread.is_alive():
            await asyncio.to_thread(thread.join)


async def run_on_thread(
    database: aiosqlite.Connection, function: Callable[[sqlite3.Connection], Result]
) -> Result:
    """Run a whole function on the connection's own thread.

    aiosqlite offers only single statements, and a transaction of ten statements would queue ten
    times behind a busy event loop. Its `_execute` is the only way to pass a function.
    """
    result = await database._execute(function, database._conn)  # noqa: SLF001
    return cast("Result", result)


def report_from_thread(
    database: aiosqlite.Connection,
    function: Callable[[sqlite3.Connection], Result],
    report: Callable[[Result | BaseException], None],
) -> None:
    """Run a whole function on the connection's own thread; the loop then calls `report`.

    It gets what the function returned or raised. This takes one callback of the loop; with
    `run_on_thread` a future and the task that awaits it would take a turn of the loop each.
    """
    loop, connection = asyncio.get_running_loop(), database._conn  # noqa: SLF001

    def work() -> None:
        result: Result | BaseException
        try:
            result = function(connection)
        except BaseException as error:  # noqa: BLE001 - it is reported
            result = error
        loop.call_soon_threadsafe(report, result)

    database._tx.put_nowait((None, work))  # noqa: SLF001 - without a future, nothing else is told
