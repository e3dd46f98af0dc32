"""The event loops that the gateway runs on: asyncio's, and uvloop's where it is installed."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

LOOPS: Final = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]

T = TypeVar("T")


def run_on(loop: str, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a new loop of that kind."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if loop == "uvloop":
        factory = importlib.import_module(loop).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(coroutine)
