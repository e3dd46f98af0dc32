"""The verb `top`."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Final, TextIO

from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.verbs import arg, flag, verb
from gateway.extras.monitor.screen import (
    QUIT,
    draw,
    ending_by_signals,
    full_screen,
    has_colours,
    reading_keys,
)
from gateway.extras.monitor.snapshot import Snapshot, SnapshotBook, describe

Show = Callable[[Snapshot], object]
_PAGE: Final = (160, 60)
"""Columns and lines of a text that goes to no terminal: those of a large window, so that little is cut."""
Wait = Callable[[], bool]
"""Waits for the next look; True ends all."""


@verb(
    "top",
    examples=("top", "top --every 5", "top --once", "top --json --every 60 > top.jsonl"),
    arguments=(
        arg("--every", read.count_above_zero, "the seconds between two looks", default=2),
        flag("--once", "look once and end, as it does without a terminal"),
    ),
)
def top(command: Command, every: int, *, once: bool) -> int:
    books = command.open_books()
    terminals = sys.stdin, command.output.out
    is_live = all(one is not None and one.isatty() for one in terminals) and not (
        once or command.as_json
    )

    once = once or not (command.as_json or is_live)

    def rest() -> bool:
        if not once:
            time.sleep(every)
        return once

    with suppress(KeyboardInterrupt), ExitStack() as stack:  # Ctrl-C is a usual end
        if is_live:
            show, wait = stack.enter_context(_take_terminal(command.output.out, every))
        else:
            show, wait = partial(_print, command), rest
        look(partial(SnapshotBook(books).read, command.config), show, wait)
    return ExitCode.OK


def look(take: Callable[[], Snapshot], show: Show, wait: Wait) -> None:
    """Take and show a snapshot, until `wait` says that it is over."""
    while True:
        show(take())
        if wait():
            return


def _print(command: Command, seen: Snapshot) -> None:
    """Print a snapshot as a line of JSON, or as a text."""
    if command.as_json:
        command.output.print(json.dumps(describe(seen)))
    else:
        size = shutil.get_terminal_size(_PAGE)
        coloured = has_colours(command.output.out)
        # The prompt needs a line.
        command.output.print(draw(seen, size.columns, size.lines - 1, coloured=coloured))


@contextmanager
def _take_terminal(out: TextIO, every: int) -> Iterator[tuple[Show, Wait]]:
    """Yield a function that shows a snapshot on the whole terminal, and one that waits for the key to end."""
    with ending_by_signals(), reading_keys(sys.stdin) as keys, full_screen(out) as write:

        def show(seen: Snapshot) -> None:
            write(draw(seen, *shutil.get_terminal_size(), coloured=has_colours(out)))

        yield show, lambda: QUIT in keys(every)
