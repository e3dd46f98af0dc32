"""The event loops that the gateway runs on: asyncio's, and uvloop's where it is installed."""

from __future__ import annotations

import asyncio
import functools
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


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Play a test on one loop after the other."""

    @functools.wraps(test)
    def play(**fixtures: Any) -> None:
        for loop in LOOPS:
            try:
                run_on(loop, test(**fixtures))
            except BaseException as error:
                error.add_note(f"on {loop}")
                raise

    return play
