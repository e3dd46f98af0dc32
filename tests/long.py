"""The long runs: what the suite plays small, in full. Run from the project's folder:

python tests/long.py offsets                        every offset of a recorded stream, ~1 min
python tests/long.py fuzz --count 10000 --seed 1    mutated requests on raw sockets, ~1 min
python tests/long.py slow                           500 readers, 1,000 heads, 10,000 idle, ~2 min
python tests/long.py restarts --restarts 50         under 50 calls a second by the SDK, ~3 min
python tests/long.py soak --minutes 5 --seed 1      everything at once
python tests/long.py backup --minutes 2             copies under 200 requests a second
python tests/long.py million                        a million calls: migration, audit, pages, ~1 min

Each prints its figures and exits with 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # the gateway, where it is not installed

from backup_kit import TURN_SECONDS, play_backups
from hostile_kit import play_fuzz
from million_kit import fill_first_version, measure_pages
from offsets_kit import PAIRS, play_offsets
from restarts_kit import play_restarts
from slow_kit import MIB, play_idlers, play_slow_bodies, play_slow_heads, play_stalled_readers
from soak_kit import play_soak

TRANSLATED_STEP: Final = 5
READERS: Final = 500
STALL_SECONDS: Final = 30.0
READERS_MIB: Final = 400
SLOW_HEADS: Final = 1000
IDLERS: Final = 10_000
HEADER_SECONDS: Final = 15.0
AT_ONCE: Final = 200
"""Four seconds of calls."""
STEADY_SECONDS: Final = 20.0
LAG_SECONDS: Final = 0.05
PAGE_MS: Final = 50
WAL_MIB: Final = 64
BACKED_UP_REQUESTS: Final = 200_000
GROWN_MIB: Final = 3.0
"""More than memory that is given back sways within minutes."""


async def run_offsets(_: argparse.Namespace) -> None:
    broken: list[str] = []
    for caller, provider in PAIRS:
        step = 1 if caller == provider else TRANSLATED_STEP
        played, wrong = await play_offsets(caller, provider, step)
        print(f"{caller} over {provider}: {played} deaths, {len(wrong)} wrong")
        broken += wrong
    assert not broken, "\n".join(broken)


async def run_fuzz(options: argparse.Namespace) -> None:
    report = await play_fuzz(options.seed, options.count)
    told = {status or "closed": count for status, count in sorted(report.statuses.items())}
    print(f"{options.count} inputs of seed {options.seed}: {told}")


async def run_slow(_: argparse.Namespace) -> None:
    readers = await play_stalled_readers(READERS, STALL_SECONDS)
    print("stalled readers:", readers)
    server = f"header_seconds = {HEADER_SECONDS}"
    heads, _told = await play_slow_heads(SLOW_HEADS, server, HEADER_SECONDS)
    print("slow heads:", heads)
    server = f"body_idle_seconds = 60\nbody_total_seconds = {HEADER_SECONDS}"
    bodies, told = await play_slow_bodies(
        SLOW_HEADS, server + f"\nmax_in_flight = {2 * SLOW_HEADS}", HEADER_SECONDS
    )
    print("slow bodies:", bodies)
    assert {one[:12] for one in told} == {b"HTTP/1.1 408"}
    server = f"header_seconds = {HEADER_SECONDS}"
    idlers, _told = await play_idlers(IDLERS, server, HEADER_SECONDS)
    print("idle connections:", idlers)
    assert readers.rss_bytes_each * READERS <= READERS_MIB * MIB


async def run_soak(options: argparse.Namespace) -> None:
    soaked = await play_soak(options.minutes, options.seed)
    print(soaked)
    grown = soaked.growth_bytes / MIB
    assert grown <= GROWN_MIB, f"memory grows: {grown:.1f} MiB in {options.minutes / 3:.1f} minutes"


async def run_restarts(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        figures = await play_restarts(
            Path(folder),
            options.restarts,
            options.seed,
            at_once=1000,
            steady_seconds=STEADY_SECONDS,
        )
    print(figures)
    figures.check()
    lag = figures.lag_p99_seconds
    assert lag < LAG_SECONDS, f"the loop lags by {lag:.3f} s: is the machine doing something else?"


async def run_million(_: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        filled = fill_first_version(Path(folder) / "gateway.db")
        started = time.monotonic()
        with filled.open_books() as books:
            print(
                f"{filled.history.requests} requests: migrated in {time.monotonic() - started:.1f} s"
            )
            started = time.monotonic()
            problems = books.audit().problems
            print(f"audited in {time.monotonic() - started:.1f} s")
            assert not problems, "\n".join(problems)
            figures = measure_pages(books, filled)
    print("\n".join(f"{ms:6.1f} ms  {page}" for page, ms in figures.items()))
    slow = [page for page, ms in figures.items() if ms > PAGE_MS]
    assert not slow, f"slower than {PAGE_MS} ms: {slow}"


async def run_backup(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        turns = max(1, round(options.minutes * 60 / TURN_SECONDS / 2))
        figures = await play_backups(Path(folder), turns, options.seed, BACKED_UP_REQUESTS)
    print(figures)
    assert not figures.failed, figures.failed[:10]
    assert figures.wal_bytes <= WAL_MIB * MIB


RUNS: Final[dict[str, Callable[[argparse.Namespace], Awaitable[None]]]] = {
    "offsets": run_offsets,
    "fuzz": run_fuzz,
    "slow": run_slow,
    "restarts": run_restarts,
    "soak": run_soak,
    "million": run_million,
    "backup": run_backup,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("--count", type=int, default=10_000, help="inputs of the fuzz run")
    parser.add_argument("--restarts", type=int, default=50, help="of the restarts run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="of the soak run")
    options = parser.parse_args()
    started = time.monotonic()
    code = 0
    try:
        asyncio.run(_play(RUNS[options.run], options))
    except* AssertionError as broken:
        print(*broken.exceptions, sep="\n", file=sys.stderr)
        code = 1
    print("BROKEN" if code else "held", f"in {time.monotonic() - started:.0f} s")
    return code


async def _play(
    run: Callable[[argparse.Namespace], Awaitable[None]], options: argparse.Namespace
) -> None:
    await run(options)


if __name__ == "__main__":
    raise SystemExit(main())
