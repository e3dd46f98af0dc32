"""Feeds the parsers of bodies as much as they take, and one more, for `test_parsers`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

from gateway.extras.console import bodies
from gateway.extras.console.errors import ConsoleError


def read_body(most: int, size: int) -> None:
    """Give a body in pieces: its size is not told before."""

    async def give() -> AsyncIterator[bytes]:
        for piece in (b"a" * (size - 1), b"a"):
            yield piece

    content = SimpleNamespace(iter_any=give)
    http = SimpleNamespace(content_length=None, content=content, protocol=None)
    asyncio.run(bodies.read_bytes(cast("Any", http), most))


FEED: Final = {
    ("extras/console/bodies", "MAX_BODY_BYTES"): (
        bodies.MAX_BODY_BYTES,
        partial(read_body, bodies.MAX_BODY_BYTES),
        ConsoleError,
    )
}
