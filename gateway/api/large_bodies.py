"""Large request bodies: bounded before they are parsed, and parsed in a worker thread.

orjson reads a body of tiny elements at 60 bytes of memory for each, and checking it takes a step in
Python for each. On the loop, one such body would stop everybody's streams for seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from gateway.dialects import count_marks, has_more_elements
from gateway.errors import BodyTooLarge

LARGE_BYTES: Final = 1 << 20
"""Bytes of a body that is parsed in a worker thread: parsing so many takes some 5 ms."""
LARGE_ELEMENTS: Final = 20_000
"""JSON values of such a body: checking so many takes some 10 ms."""
MAX_ELEMENTS: Final = 300_000
"""JSON values of a body: six times a long conversation with many tools. orjson, which lets no other
thread run, reads the slowest of so many in 14 ms and writes them in 6."""

Result = TypeVar("Result")


def is_large(data: bytes) -> bool:
    """Return whether to parse the body in a worker thread; commas in texts count, too."""
    size = len(data)
    return size > LARGE_BYTES or (size > LARGE_ELEMENTS and count_marks(data) > LARGE_ELEMENTS)


class LargeBodies:
    """One thread for the work on large bodies: one at a time, so that memory stays bounded."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-bodies")

    async def run(self, function: Callable[[], Result], *, large: bool) -> Result:
        """Call the function, in the thread if its body is large."""
        if not large:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def check_elements(data: bytes) -> None:
    """Raise BodyTooLarge for a body of too many elements; what is in strings does not count."""
    if has_more_elements(data, MAX_ELEMENTS):
        raise BodyTooLarge(f"The request body has more than {MAX_ELEMENTS:,} JSON values.")
