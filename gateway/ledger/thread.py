"""Whole functions on an aiosqlite connection's own thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, TypeVar, cast

import aiosqlite

ROWS_PER_CHUNK: Final = 64
"""Asked for by aiosqlite, whose cursors are not used."""

Result = TypeVar("Result")


async def run_on_thread(
    database: aiosqlite.Connection, function: Callable[[sqlite3.Connection], Result]
) -> Result:
    """Run a function on the connection's own thread, as one hop.

    aiosqlite offers a hop per statement only, and a transaction of ten statements would then
    queue ten times behind a busy event loop; its `_execute` is the one way in for a function.
    """
    result = await database._execute(function, database._conn)  # type: ignore[no-untyped-call]  # noqa: SLF001
    return cast("Result", result)
