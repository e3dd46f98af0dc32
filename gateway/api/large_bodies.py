"""Large request bodies: bounded before they are parsed, and parsed in a worker thread.

orjson reads a body of tiny elements at 60 bytes of memory for each, and checking it takes a step in
Python for each. On the loop, one such body would stop everybody's streams for seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from gateway.errors import BodyTooLarge

LARGE_BYTES: Final = 1 << 20
"""Bytes of a body that is parsed in a worker thread: parsing so many takes some 5 ms."""
LARGE_ELEMENTS: Final = 20_000
"""JSON values of such a body: checking so many takes some 10 ms."""
MAX_ELEMENTS: Final = 500_000
"""JSON values of a body: ten times a long conversation with many tools, and 30 MiB of memory."""

Result = TypeVar("Result")


def is_large(data: bytes) -> bool:
    """Tell whether a body is to be parsed beside the loop; commas in texts count, too."""
    return len(data) > LARGE_BYTES or data.count(b",") > LARGE_ELEMENTS


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
    elements = position = 0
    while True:
        quote = data.find(b'"', position)
        end = len(data) if quote < 0 else quote
        elements += data.count(b",", position, end) + 1
        if elements > MAX_ELEMENTS:
            raise BodyTooLarge(f"The request body has more than {MAX_ELEMENTS:,} JSON values.")
        if quote < 0:
            return
        position = _find_string_end(data, quote + 1)


def _find_string_end(data: bytes, start: int) -> int:
    """Return the index behind the quote that ends a string; escaped quotes are in it."""
    while True:
        quote = data.find(b'"', start)
        if quote < 0:
            return len(data)
        backslashes = quote
        while data[backslashes - 1] == _BACKSLASH:
            backslashes -= 1
        if (quote - backslashes) % 2 == 0:
            return quote + 1
        start = quote + 1


_BACKSLASH: Final = ord("\\")
