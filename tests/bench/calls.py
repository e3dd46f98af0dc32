"""Count function calls on the gateway's event loop: `python -m tests.bench.calls`, half a minute.

A count does not depend on the load of the machine. The gateway runs under cProfile with one
connection; the counts of two runs of different length are subtracted, so that start and end of
the process cancel out. The output is the calls per JSON request and per event of a passing stream,
by module.
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

from tests.bench import books, load, wire
from tests.bench.processes import run_gateway, run_script
from tests.bench.wire import Mode
from tests.support.process import free_port

REQUESTS: Final = (200, 1200)
STREAMS: Final = (5, 25)
EVENTS: Final = 200
TICK_MS: Final = 1.0
STATS: Final = "GATEWAY_CALLS_FILE"
"""The variable that names the file for the profile of the child process."""
ROWS: Final = 24
MEASURED: Final[tuple[tuple[str, Mode, tuple[int, int], int], ...]] = (
    ("JSON request", "json", REQUESTS, 1),
    ("event of a passing stream", "paced", STREAMS, EVENTS),
)


def profile_gateway(words: list[str]) -> int:
    """Run the gateway's command line under cProfile; only this thread is counted."""
    from gateway.cli import main

    profile = cProfile.Profile()
    profile.enable()
    try:
        return main(words)
    finally:
        profile.disable()
        profile.dump_stats(os.environ[STATS])


def count_calls(mode: Mode, requests: int) -> Counter[str]:
    """Send so many requests one after the other and return the calls by module."""
    with tempfile.TemporaryDirectory() as folder_name, ExitStack() as stack:
        folder = Path(folder_name)
        upstream = stack.enter_context(
            run_script("upstream", f"--events={EVENTS}", f"--tick-ms={TICK_MS}")
        )
        port = free_port()
        config = books.write_config(folder, port, upstream.port)
        key = books.add_caller(config)
        stats = folder / "calls"
        stack.callback(os.environ.pop, STATS)
        os.environ[STATS] = str(stats)
        target = stack.enter_context(run_gateway(config, port, module="tests.bench.calls"))
        slot = load.Slot(
            port=port, request=wire.make_request(target.host, key, mode), mode=mode, events=EVENTS
        )
        asyncio.run(load.run_requests(slot, requests))
        stack.close()  # the gateway writes its profile at its end
        return _read(stats)


def _read(path: Path) -> Counter[str]:
    calls: Counter[str] = Counter()
    for (file, _, name), (_, count, *_) in marshal.loads(path.read_bytes()).items():
        calls[_name_module(file, name)] += count
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


def main() -> int:
    if STATS in os.environ:
        return profile_gateway(sys.argv[1:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="modules shown (%(default)s)")
    options = parser.parse_args()
    for title, mode, counts, units in MEASURED:
        total, rows = subtract(mode, counts, units)
        print(f"{total:8.1f} calls per {title}")
        for name, calls in rows[: options.rows]:
            print(f"{calls:8.1f}   {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
