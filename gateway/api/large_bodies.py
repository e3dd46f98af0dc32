"""Where JSON is parsed and translated: at once, in a turn of the event loop that has time, or in a thread.

Each value takes a step in Python, and 60 bytes of memory. On the loop, a body of many would stop
everybody's streams for as long as it takes. What it takes is known from the number of its values and
the pair of dialects (`Exchange.request_rate`, `Exchange.reply_rate`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, TypeVar

from gateway.dialects.wire.jsonbytes import bound_elements
from gateway.tasks import find_turns

LOOP_MS: Final = 3.0
"""The longest work on the event loop; what takes longer is done in a thread."""
SHORT_MS: Final = 0.5
"""Work that need not wait for a turn with time left: the request itself takes about as long."""
LOOP_BYTES: Final = 1 << 19
"""Bytes that are read or written on the loop at most, whatever is in them: so many take 1 ms."""
REST_SECONDS: Final = 0.05
"""The longest rest of the thread. It rests for as long as a job took: a call of orjson lets no other
thread run, 30 ms at most, and the loop, which gives way in each call of the system, would meet one
after another."""
PARSE_RATE: Final = 4_000
"""Values that are parsed and validated in a millisecond, in the slowest dialect: Responses."""

Result = TypeVar("Result")


class Place(Enum):
    """Where work is done."""

    NOW = 0
    TURN = 1
    """On the event loop, in a turn that has time left."""
    THREAD = 2


def choose_place(data: bytes, rate: int) -> Place:
    """Choose where JSON is worked on, of which `rate` values take a millisecond.

    Commas in texts count, too: to tell them apart would take as long as the work.
    """
    size = len(data)
    return place_elements(size, 0 if size > LOOP_BYTES else bound_elements(data), rate)


def place_elements(size: int, elements: int, rate: int) -> Place:
    """Choose where so many bytes with so many values at most are worked on."""
    if size > LOOP_BYTES or elements > LOOP_MS * rate:
        return Place.THREAD
    return Place.TURN if elements > SHORT_MS * rate else Place.NOW


@dataclass(slots=True, eq=False)
class _Job:
    begin: Callable[[], None]
    is_unwanted: Callable[[], bool]


class LargeBodies:
    """One thread for long work: one job at a time, so that memory stays bounded, fair by owner."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-bodies")
        self._waiting: dict[Hashable, deque[_Job]] = {}
        """By owner, such as the account; whose turn it is next comes first."""
        self._busy = False

    async def run(
        self, function: Callable[[], Result], place: Place, owner: Hashable = None
    ) -> Result:
        """Call a function in its place; what waits does so behind what its owner has waiting."""
        if place is Place.NOW:
            return function()
        if place is Place.TURN:
            return await find_turns().run(owner, function)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def begin() -> None:
            begun = loop.run_in_executor(self._thread, function)
            begun.add_done_callback(partial(self._finish, done, loop.time()))

        self._waiting.setdefault(owner, deque()).append(_Job(begin, done.done))
        if not self._busy:
            self._begin_next()
        return await done

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin_next(self) -> None:
        """Give the thread the next job, of the owner that has waited longest since its last one."""
        self._busy = False
        while self._waiting:
            owner = next(iter(self._waiting))
            queue = self._waiting.pop(owner)
            job = queue.popleft()
            if queue:
                self._waiting[owner] = queue  # at the end
            if not job.is_unwanted():  # its caller's task was cancelled
                self._busy = True
                job.begin()
                return

    def _finish(
        self, done: asyncio.Future[Result], began: float, begun: asyncio.Future[Result]
    ) -> None:
        loop = begun.get_loop()
        loop.call_later(min(loop.time() - began, REST_SECONDS), self._begin_next)
        if begun.cancelled():
            done.cancel()
        elif done.done():
            begun.exception()  # nobody wants it
        elif (error := begun.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(begun.result())
