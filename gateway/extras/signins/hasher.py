"""Threads for password hashes, which take long.

Passwords are hashed two at a time, in 64 MiB of memory however many people try to sign in. A hash keeps
its place until it is done: a request that is cancelled does not make room for another one earlier.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from gateway.extras.signins import passwords

T = TypeVar("T")

AT_ONCE: Final = 2
"""Threads. Each hash takes 32 MiB, and a core for some 0.2 s."""
NICE_VALUE: Final = 10
"""Requests come first, with nine tenths of a busy core. At 19, the lowest priority, a sign-in beside
four busy processes took a minute."""
MAX_PENDING: Final = 32
"""Running and queued: about four seconds of work. People would not wait longer."""


class Busy(Exception):
    """Too many hashes are queued."""

    def __init__(self) -> None:
        super().__init__("Too many people are signing in. Try again in a few seconds.")


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

    def require_room(self) -> None:
        """Raise Busy if the queue is full. Call this before a try is counted, so that none is lost."""
        if self.is_busy:
            raise Busy

    async def hash(self, password: str) -> str:
        """Return the encoded hash of a new password. Raises Busy if the queue is full."""
        return await self._run(lambda: passwords.hash_password(password))

    async def verify(self, password: str, encoded: str | None) -> bool:
        """Return whether the password matches. Raises Busy if the queue is full.

        If `encoded` is None the result is False after the same work, so that the time does not reveal
        whether an account exists.
        """
        against = self._nobodys_hash if encoded is None else encoded
        return await self._run(lambda: passwords.verify_password(password, against))

    async def _run(self, work: Callable[[], T]) -> T:
        self.require_room()
        self._pending += 1
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, work)
        finally:
            self._pending -= 1


def _lower_priority() -> None:
    """Give this thread a low priority, so that hashes do not slow down requests to models.

    Only on Linux: elsewhere the priority would be the whole process's.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # Only root may raise a priority: a process that was started with less keeps it.
        lowest = max(NICE_VALUE, os.getpriority(os.PRIO_PROCESS, thread))
        os.setpriority(os.PRIO_PROCESS, thread, lowest)
