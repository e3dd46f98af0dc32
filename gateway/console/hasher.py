"""Password hashes on threads of their own: two at once and a short queue, whoever knocks how hard.

Two take 64 MiB. They are counted by their threads, not by the requests that wait for them: a
request that goes away does not make room before its hash is done.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from gateway.passwords import hash_password, make_nobodys_hash, verify_password

T = TypeVar("T")

AT_ONCE: Final = 2
LOWEST_PRIORITY: Final = 19
MAX_PENDING: Final = 32
"""Running and waiting: some four seconds' work. More would wait for an answer nobody reads."""


class TooBusy(Exception):
    """As many passwords as may wait are waiting."""


class Hasher:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(
            AT_ONCE, thread_name_prefix="passwords", initializer=_give_way
        )
        self._pending = 0
        self._nobodys_hash = make_nobodys_hash()

    @property
    def is_busy(self) -> bool:
        return self._pending >= MAX_PENDING

    async def hash(self, password: str) -> str:
        """Raises TooBusy."""
        return await self._run(lambda: hash_password(password))

    async def verify(self, password: str, encoded: str | None) -> bool:
        """Whether it is the password; against None the same work, and False. Raises TooBusy."""
        against = self._nobodys_hash if encoded is None else encoded
        return await self._run(lambda: verify_password(password, against))

    async def _run(self, work: Callable[[], T]) -> T:
        if self.is_busy:
            raise TooBusy
        self._pending += 1
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, work)
        finally:
            self._pending -= 1


def _give_way() -> None:
    """Hash when nobody else wants the processor: callers go first. (On Linux: of this thread.)"""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
