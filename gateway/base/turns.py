"""Fair shares of the event loop (`Turns`) and of one thread (`LargeBodies`); background tasks; the loop's lag."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

log = logging.getLogger("gateway.tasks")

TURN_SECONDS: Final = 0.002
"""The time in one turn of the event loop for deferrable work. More work waits for a later turn."""
REST_TURNS: Final = 3
"""Turns without long work between two turns with it: a request of another account takes eight turns, and long
work in each of them would delay it eight times."""
SHARE: Final = 8
"""Pieces of work that one owner may begin in a turn, such as heads of requests. Each also makes later
turns longer."""

REST_SECONDS: Final = 0.05
"""The longest pause of the thread. After each job it pauses as long as the job took: orjson holds the
GIL for up to 30 ms per call, and the loop, which releases the GIL in each system call, would meet one
such call after another."""

LINGERING: Final = "lingering"
"""The owner of all turns in which bytes are thrown away, in large reads: there may be many."""

Result = TypeVar("Result")
Work = TypeVar("Work")


class Turns:
    """Shares of the event loop's turns. Work that would make a turn long waits, fairly by owner.

    The owner of work is an account, a provider, or all strangers together.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Hashable, deque[Callable[[], object]]] = {}
        """Waiting work by owner, the next owner first."""
        self._long: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """The same of tasks that wait to do long work."""
        self._rest_turns = 0
        """Turns until long work may begin again."""
        self._begun: dict[Hashable, int] = {}
        """The pieces of work in this turn by owner; while turns are not counted, those of several
        turns."""
        self._until = 0.0
        self._counts = False
        """A turn is being counted; its end is scheduled."""

    def may_begin(self, owner: Hashable) -> bool:
        """Count a piece of work of an owner; return False if it has to wait for another turn."""
        begun = self._begun.get(owner, 0)
        if begun >= SHARE or owner in self._waiting:
            return False
        # A turn's end is scheduled only if the share may be used up in it: otherwise a single request
        # would cause an extra turn.
        if begun >= SHARE // 2 and not self._counts:
            self._count()
        self._begun[owner] = begun + 1
        return True

    def has_work(self) -> bool:
        """Return whether work waits for a turn. Discarding bytes does not count: no deadline needs it."""
        return bool(self._long) or len(self._waiting) > (LINGERING in self._waiting)

    def has_time(self) -> bool:
        """Return whether this turn has time left for work that can wait."""
        if not self._counts:
            self._count()
        return self._loop.time() < self._until

    def defer(self, owner: Hashable, work: Callable[[], object]) -> None:
        """Do work in a later turn, when the owner's turn comes."""
        self._waiting.setdefault(owner, deque()).append(work)
        if not self._counts:
            self._count()

    async def wait(self, owner: Hashable) -> None:
        """Return when the owner may do long work, of milliseconds: at once, or in a later turn."""
        if not self._long and self.has_time():
            return
        begun: asyncio.Future[None] = self._loop.create_future()
        self._long.setdefault(owner, deque()).append(begun)
        if not self._counts:
            self._count()
        await begun

    def _count(self) -> None:
        # The next `call_soon` ends the turn: everything that is ready now runs first.
        self._counts = True
        self._until = self._loop.time() + TURN_SECONDS
        self._loop.call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Do waiting work while there is time, one piece per owner in turn, and one piece of long work."""
        self._counts = False
        self._begun.clear()
        if not (self._waiting or self._long):
            self._rest_turns = 0
            return
        self._count()
        for _ in range(2 * SHARE):
            if not self._waiting or not self.has_time():
                break
            owner, work = _take_next(self._waiting)
            self._begun[owner] = self._begun.get(owner, 0) + 1
            work()
        if self._rest_turns:
            self._rest_turns -= 1
        else:
            self._begin_long()

    def _begin_long(self) -> None:
        """Let the next task begin its long work, as the last work of this turn: nobody knows how long it takes."""
        while self._long:
            _, begun = _take_next(self._long)
            if not begun.done():  # else its task was cancelled
                begun.set_result(None)
                self._until, self._rest_turns = 0.0, REST_TURNS
                return


def _take_next(queues: dict[Hashable, deque[Work]]) -> tuple[Hashable, Work]:
    """Take work of the owner whose last one is longest ago, who comes first: a dict keeps its order."""
    owner = next(iter(queues))
    queue = queues.pop(owner)
    work = queue.popleft()
    if queue:
        queues[owner] = queue  # at the end
    return owner, work


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def find_turns() -> Turns:
    """Return the shares of the running event loop's turns."""
    loop = asyncio.get_running_loop()
    if loop not in _turns:
        _turns[loop] = Turns(loop)
    return _turns[loop]


_Job = tuple[Callable[[], None], Callable[[], bool]]
"""Begins a job; returns False if nobody waits for it any more."""


def _make_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="large-bodies")


class LargeBodies:
    """One thread for long work: one job at a time, so that memory stays bounded, fair by owner."""

    def __init__(self) -> None:
        self._thread = _make_thread()
        self._waiting: dict[Hashable, deque[_Job]] = {}
        """Jobs by owner, such as the account; the owner whose turn is next comes first."""
        self._busy = False

    async def run(self, function: Callable[[], Result], owner: Hashable = None) -> Result:
        """Call a function in the thread. It queues behind its owner's other jobs."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def begin() -> None:
            began = loop.time()  # set before, as the thread may hold the GIL from its first line on
            try:
                begun = loop.run_in_executor(self._thread, function)
            except RuntimeError:  # the machine has no thread, but the pool would keep the job
                self._thread = _make_thread()
                raise
            begun.add_done_callback(partial(self._finish, done, began))

        self._waiting.setdefault(owner, deque()).append((begin, done.done))
        if not self._busy:
            self._begin_next()
        return await done

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin_next(self) -> None:
        """Give the thread the next job: of the owner whose last job is longest ago."""
        self._busy = False
        while self._waiting:
            _, (begin, is_unwanted) = _take_next(self._waiting)
            # Jobs that nobody waits for are dropped: a caller's time-out must not cost others time.
            if not is_unwanted():  # its caller's task was cancelled
                begin()  # raises where the machine has no thread
                self._busy = True
                return

    def _finish(
        self, done: asyncio.Future[Result], began: float, begun: asyncio.Future[Result]
    ) -> None:
        loop = begun.get_loop()
        loop.call_later(min(loop.time() - began, REST_SECONDS), self._begin_next)
        if begun.cancelled():
            done.cancel()
        else:
            error = begun.exception()
            end_wait(done, begun.result() if error is None else error)


def run_apart(function: Callable[[], Result]) -> asyncio.Future[Result]:
    """Call a function in a thread of its own, as it may hang: a file on a dead network disk, a name server.

    The thread is a daemon, so neither other calls nor the end of the process wait for it. Raises RuntimeError
    if the machine has no thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def work() -> None:
        try:
            end = partial(end_wait, done, function())
        except Exception as error:  # noqa: BLE001 - the future raises it
            end = partial(end_wait, done, error)
        with suppress(RuntimeError):  # the loop was closed in between
            loop.call_soon_threadsafe(end)

    Thread(target=work, daemon=True).start()
    return done


def end_wait(wait: asyncio.Future[Result], result: Result | BaseException) -> None:
    """Give a wait its result or exception, unless its task was cancelled."""
    if wait.done():
        return
    if isinstance(result, BaseException):
        wait.set_exception(result)
    else:
        wait.set_result(result)


_running: set[asyncio.Task[None]] = set()
"""Keeps tasks alive, as the event loop holds only weak references to them."""


def spawn(coroutine: Coroutine[object, None, None], *, name: str) -> asyncio.Task[None]:
    """Start a background task. If it raises, the error is logged."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_finish)
    return task


async def measure_loop_lag(note: Callable[[float], None], tick_seconds: float) -> None:
    """Until cancelled, call `note` with the seconds by which a sleep of one tick ended late."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        await asyncio.sleep(tick_seconds)
        note(max(loop.time() - began - tick_seconds, 0.0))


def _finish(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task %s failed", task.get_name(), exc_info=error)
