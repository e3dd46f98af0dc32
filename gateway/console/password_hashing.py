"""Compute password hashes in worker threads: two at a time, with a short queue.

Two take 64 MiB of memory, however many people try to sign in. A hash keeps its place until it is
done: a request that is cancelled does not make room for another one earlier.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from gateway.admin import passwords

T = TypeVar("T")

AT_ONCE: Final = 2
"""Threads. Each hash takes 32 MiB, and a core for some 0.2 s."""
LOWEST_PRIORITY: Final = 19
"""The nice value: requests come first."""
MAX_PENDING: Final = 32
"""Running and queued: about four seconds of work. People would not wait longer."""


class TooBusy(Exception):
    """The queue of passwords to hash is full."""


class PasswordHasher:
    """A pool of low-priority threads for password hashes, with a bounded queue."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(
            AT_ONCE, thread_name_prefix="passwords", initializer=_lower_priority
        )
        self._pending = 0
        self._nobodys_hash = passwords.make_nobodys_hash()

    @property
    def is_busy(self) -> bool:
        return self._pending >= MAX_PENDING

    async def hash(self, password: str) -> str:
        """Return the encoded hash of a new password. Raises TooBusy."""
        return await self._run(lambda: passwords.hash_password(password))

    async def verify(self, password: str, encoded: str | None) -> bool:
        """Return whether the password matches. Raises TooBusy.

        If `encoded` is None the result is False after the same work, so that the time does not
        tell whether an account exists.
        """
        against = self._nobodys_hash if encoded is None else encoded
        return await self._run(lambda: passwords.verify_password(password, against))

    async def _run(self, work: Callable[[], T]) -> T:
        if self.is_busy:
            raise TooBusy
        self._pending += 1
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, work)
        finally:
            self._pending -= 1


def _lower_priority() -> None:
    """Give this thread the lowest priority, so that hashes do not slow down requests to models.

    Only on Linux: elsewhere the priority would be the whole process's.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
