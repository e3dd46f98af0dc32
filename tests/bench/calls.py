"""Count function calls on the gateway's event loop: `python -m tests.bench.calls`, a minute.

A count does not depend on the load of the machine. The gateway runs under cProfile with one
connection; the counts of two runs of different length are subtracted, so that start and end of
the process cancel out. The output is the calls per JSON request of both dialects and per event of a
passing stream, by module, the turns of the loop among them, and how many of our modules are passed.
`test_calls.py` holds the counts to ceilings.

The counts are those on asyncio's own loop: uvloop's is no Python code, so it takes fewer.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import marshal
import os
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench import books, load
from tests.bench.processes import Target, run_gateway, run_upstream
from tests.bench.wire import Mode
from tests.support.process import free_port

REQUESTS: Final = (200, 1200)
STREAMS: Final = (5, 25)
EVENTS: Final = 200
TICK_MS: Final = 2.0
"""Long enough that the profiled gateway gets the events one by one."""
STATS: Final = "GATEWAY_CALLS_FILE"
"""The variable that names the file for the profile of the child process."""
TURN: Final = "_run_once"
"""The function of asyncio that is called once a turn."""
ROWS: Final = 24
ONCE: Final = 0.9
"""Calls per request of a module that each one passes: a few come late, and count for the next."""
MEASURED: Final[tuple[tuple[str, Mode, tuple[int, int], int], ...]] = (
    ("JSON request", "json", REQUESTS, 1),
    ("JSON request of the messages dialect", "messages", REQUESTS, 1),
    ("event of a passing stream", "paced", STREAMS, EVENTS),
    ("event of a passing stream of the Responses dialect", "responses", STREAMS, EVENTS),
)


def profile_gateway(words: list[str]) -> int:
    """Run the gateway's command line under cProfile; only this thread is counted."""
    vars(sys)["modules"]["uvloop"] = None  # imports of it fail
    from gateway.cli import main

    profile = cProfile.Profile()
    profile.enable()
    try:
        return main(words)
    finally:
        profile.disable()
        profile.dump_stats(os.environ[STATS])


def serve(stack: ExitStack, folder: Path, module: str) -> tuple[Target, str]:
    """Start a provider and the gateway; return the gateway and a key."""
    upstream = stack.enter_context(run_upstream(EVENTS, TICK_MS))
    port = free_port()
    config = books.write_config(folder, port, upstream.port)
    key = books.add_caller(config)
    return stack.enter_context(run_gateway(config, port, module)), key


def ask(target: Target, key: str, mode: Mode, requests: int) -> None:
    slot = load.make_slot(target.port, key, mode, EVENTS)
    asyncio.run(load.run_requests(slot, requests, 1))


def count_calls(mode: Mode, requests: int) -> Counter[str]:
    """Send so many requests one after the other and return the calls by module."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stats = Path(folder, "calls")
        stack.callback(os.environ.pop, STATS)
        os.environ[STATS] = str(stats)
        target, key = serve(stack, Path(folder), "tests.bench.calls")
        ask(target, key, mode, requests)
        stack.close()  # the gateway writes its profile at its end
        return _read(stats)


def _read(path: Path) -> Counter[str]:
    calls: Counter[str] = Counter()
    for (file, _, name), (_, count, *_) in marshal.loads(path.read_bytes()).items():
        calls[TURN if name == TURN else _name_module(file, name)] += count
    return calls


def _name_module(file: str, name: str) -> str:
    if file == "~":
        return f"builtin {name}" if "method" not in name else "builtin methods"
    parts = Path(file).with_suffix("").parts
    for package in ("gateway", "aiohttp", "asyncio", "multidict", "yarl", "aiosqlite"):
        if package in parts:
            return ".".join(parts[len(parts) - 1 - parts[::-1].index(package) :])
    return parts[-1]


def subtract(
    mode: Mode, counts: tuple[int, int], units: int
) -> tuple[float, list[tuple[str, float]]]:
    """Return the calls per unit in all, and by module, the most first."""
    few, many = (count_calls(mode, count) for count in counts)
    divisor = (counts[1] - counts[0]) * units
    by_module = {name: (many[name] - few[name]) / divisor for name in many}
    rows = sorted(by_module.items(), key=lambda row: -row[1])
    return sum(by_module.values()), rows


def count_modules(rows: list[tuple[str, float]], units: int) -> int:
    """Count our modules that a request, or a whole stream, passes, given the calls per unit."""
    return sum(name.startswith("gateway.") and calls * units >= ONCE for name, calls in rows)


def main() -> int:
    if STATS in os.environ:
        return profile_gateway(sys.argv[1:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="modules shown (%(default)s)")
    options = parser.parse_args()
    for title, mode, counts, units in MEASURED:
        total, rows = subtract(mode, counts, units)
        print(f"{total:8.1f} calls per {title}")
        print(f"{dict(rows)[TURN]:8.1f}   turns of the loop")
        print(f"{count_modules(rows, units):8d}   modules of the package")
        for name, calls in rows[: options.rows]:
            print(f"{calls:8.1f}   {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
