"""The long runs of what the suite plays in small. Run them from the project's folder:

python -m tests.long lives --count 100000 --seed 1  random lives against the driver, ~1 min
python -m tests.long fuzz --count 10000 --seed 1    mutated requests on raw sockets, ~1 min
python -m tests.long parsers --minutes 10 --seed 1  spoiled bytes for all parsers, whole and cut
python -m tests.long slow                           500 readers, 1,000 heads, 10,000 idle, ~2 min
python -m tests.long hostile                        callers and providers at their worst, ~6 min
python -m tests.long restarts --restarts 50         under 50 calls a second by the SDK, ~3 min
python -m tests.long soak --minutes 5 --seed 1      everything at once
python -m tests.long backup --minutes 2             copies under 200 requests a second
python -m tests.long kill --kills 200 --seed 1      killed under load, ~3 min
python -m tests.long growth                         10 to 100,000 keys, 0 to a million rows, ~3 min
python -m tests.long million                        a million calls: migration, audit, pages, ~1 min

Each prints its figures and exits with 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from tests.api.hostile import play_fuzz
from tests.api.lives.life import play_lives
from tests.api.slow import MIB, play_slow
from tests.extras.reports.pages import play_previous
from tests.long import hostile, killing
from tests.long.backups import TURN_SECONDS, play_backups
from tests.long.growth import SIZES, play_growth
from tests.long.million import show_pages
from tests.long.parsers import play_parsers
from tests.long.restarts import play_restarts
from tests.long.soak import play_soak
from tests.support.extras import find_modules

READERS: Final = 500
STALL_SECONDS: Final = 30.0
READERS_MIB: Final = 400
SLOW_HEADS: Final = 1000
NOTICED_MS: Final = 250
"""How far the p99 of the other requests may rise while slow callers are there."""
IDLERS: Final = 10_000
HEADER_SECONDS: Final = 15.0
STEADY_SECONDS: Final = 20.0
LAG_SECONDS: Final = 0.05
WAL_MIB: Final = 64
BACKED_UP_REQUESTS: Final = 200_000
START_SECONDS: Final = 2.0
GROWTH: Final = 1.1
GROWTH_ROUNDS: Final = 7
GROWN_MIB: Final = 3.0
"""Growth that is more than the usual variation of resident memory within minutes."""


async def run_fuzz(options: argparse.Namespace, _: Path) -> None:
    report = await play_fuzz(options.seed, options.count)
    told = {status or "closed": count for status, count in sorted(report.statuses.items())}
    print(f"{options.count} inputs of seed {options.seed}: {told}")


async def run_parsers(options: argparse.Namespace, _: Path) -> None:
    played, broken = await asyncio.to_thread(play_parsers, options.seed, 60 * options.minutes)
    print(f"{played} inputs of seed {options.seed}: {len(broken)} kinds of faults")
    assert not broken, "\n".join(broken)


async def run_kill(options: argparse.Namespace, folder: Path) -> None:
    logging.getLogger("gateway").setLevel(logging.ERROR)  # every recovery would say that it was one
    figures = await killing.run(
        folder, kills=options.kills, seed=options.seed, streams=50, others=50
    )
    print(figures)
    assert figures.ok, figures.problems


async def run_lives(options: argparse.Namespace, _: Path) -> None:
    report = await asyncio.to_thread(play_lives, options.seed, options.count)
    print(report)
    assert not report.broken, "\n\n".join(life.describe() for life in report.broken[:5])
    assert options.count == 1 or not report.unreached


async def run_slow(_: argparse.Namespace, __: Path) -> None:
    heads = f"header_seconds = {HEADER_SECONDS}"
    bodies = f"body_idle_seconds = 60\nbody_total_seconds = {HEADER_SECONDS}"
    readers, _told = await play_slow(
        "reader", READERS, f"stall_seconds = {STALL_SECONDS}", STALL_SECONDS
    )
    others = {
        "heads": await play_slow("head", SLOW_HEADS, heads, HEADER_SECONDS),
        "bodies": await play_slow("body", SLOW_HEADS, bodies, HEADER_SECONDS),
        "idlers": await play_slow("idle", IDLERS, heads, HEADER_SECONDS),
    }
    print("stalled readers:", readers)
    assert readers.rss_bytes_each * READERS <= READERS_MIB * MIB
    for name, (figures, told) in others.items():
        print(f"slow {name}:", figures)
        assert figures.p99_during_ms < figures.p99_before_ms + NOTICED_MS, figures
        assert name != "bodies" or told == {b"HTTP/1.1 408 Request Timeout"}
    assert readers.p99_during_ms < readers.p99_before_ms + NOTICED_MS, readers


async def run_soak(options: argparse.Namespace, _: Path) -> None:
    soaked = await play_soak(options.minutes, options.seed)
    print(soaked)
    grown = soaked.growth_bytes / MIB
    assert grown <= GROWN_MIB, f"memory grows: {grown:.1f} MiB in {options.minutes / 3:.1f} minutes"


async def run_hostile(_: argparse.Namespace, __: Path) -> None:
    figures = await hostile.play()
    broken = [one.attack for one in figures if not one.ok]
    assert not broken, f"others noticed: {', '.join(broken)}"


async def run_restarts(options: argparse.Namespace, folder: Path) -> None:
    figures = await play_restarts(
        folder, options.restarts, options.seed, at_once=1000, steady_seconds=STEADY_SECONDS
    )
    print(figures)
    figures.check()
    lag = figures.lag_p99_seconds
    assert lag < LAG_SECONDS, f"the loop lags by {lag:.3f} s: is the machine doing something else?"


async def run_million(_: argparse.Namespace, folder: Path) -> None:
    show_pages(play_previous(folder / "gateway.db"))


async def run_growth(_: argparse.Namespace, folder: Path) -> None:
    figures = await asyncio.to_thread(play_growth, folder, SIZES, GROWTH_ROUNDS)
    print(*figures, sep="\n")
    least = figures[0].median_ms
    for one in figures:
        assert one.start_seconds <= START_SECONDS, one
        assert one.median_ms <= GROWTH * least, one


async def run_backup(options: argparse.Namespace, folder: Path) -> None:
    turns = max(1, round(options.minutes * 60 / TURN_SECONDS / 2))
    figures = await play_backups(folder, turns, options.seed, BACKED_UP_REQUESTS)
    print(figures)
    assert not figures.failed, figures.failed[:10]
    assert figures.wal_bytes <= WAL_MIB * MIB


Run = Callable[[argparse.Namespace, Path], Coroutine[None, None, None]]
RUNS: Final[dict[str, Run]] = {
    run.__name__.removeprefix("run_"): run
    for run in (
        *(run_fuzz, run_parsers, run_kill, run_lives, run_slow, run_hostile),
        *(run_restarts, run_soak),
        *(run_growth, run_million, run_backup),
    )
}
"""Besides those of extras, in `tests/extras/NAME/long.py`."""


OPTIONS: Final = (
    ("count", 10_000, "the fuzz and lives runs"),
    ("restarts", 50, "the restarts and outages runs"),
    ("reloads", 50, "the reloads run"),
    ("kills", 200, "the kill and nodes runs"),
    ("minutes", 5.0, "the parsers, soak and backup runs"),
    ("seed", 1, "all that draw lots"),
)


def main() -> int:
    added = find_modules("long").values()
    runs = RUNS | {name: run for module in added for name, run in module.RUNS.items()}
    described = "\n\n".join([str(__doc__), *(str(module.__doc__) for module in added)])
    parser = argparse.ArgumentParser(
        description=described, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", choices=runs)
    for name, default, users in OPTIONS:
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"of {users}")
    options = parser.parse_args()
    started = time.monotonic()
    code = 0
    try:
        # On a disk: the databases of some are large.
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            asyncio.run(runs[options.run](options, Path(folder)))
    except* AssertionError as broken:
        print(*broken.exceptions, sep="\n", file=sys.stderr)
        code = 1
    print("BROKEN" if code else "held", f"in {time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
