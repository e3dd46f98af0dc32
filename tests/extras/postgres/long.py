"""On PostgreSQL:

python -m tests.long nodes --kills 100 --seed 1     one of three gateways is killed, ~6 min
python -m tests.long outages --restarts 20          the database is restarted under three, ~2 min
python -m tests.long bursts --seed 1                1,000 calls on money for ten, 20 times, ~3 min
python -m tests.long shared_million                 a million calls of 2,000 accounts, ~2 min
"""

from __future__ import annotations

import argparse
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.extras.postgres import loads
from tests.extras.postgres.bursts import HELD_AT_ONCE, play_burst
from tests.extras.postgres.cluster import Cluster, run_cluster
from tests.extras.postgres.fixtures import need_server
from tests.extras.postgres.fleet import Fleet, run_fleet
from tests.extras.postgres.million import play_million
from tests.long.million import show_pages

BURSTS: Final = 20
RETURN_SECONDS: Final = 1.0
"""In which all nodes serve again once the database accepts connections."""
AWAY_SECONDS: Final = 8.0
"""Longer than the silence after which a node counts as dead."""


@asynccontextmanager
async def open_fleet(folder: Path) -> AsyncIterator[tuple[Fleet, Cluster]]:
    """Start three gateways on a PostgreSQL server of their own."""
    with run_cluster(need_server()) as cluster:
        async with run_fleet(folder, cluster.make_database(), (loads.RICH,)) as fleet:
            yield fleet, cluster


async def run_nodes(options: argparse.Namespace, folder: Path) -> None:
    async with open_fleet(folder) as (fleet, _):
        figures = await loads.play_kills(fleet, kills=options.kills, seed=options.seed)
    print(figures)
    assert figures.ok, figures.problems


async def run_outages(options: argparse.Namespace, folder: Path) -> None:
    draw = random.Random(options.seed)
    away = (*(draw.uniform(0, 1) for _ in range(options.restarts)), AWAY_SECONDS)
    async with open_fleet(folder) as (fleet, cluster):
        figures = await loads.play_outages(fleet, cluster, away_seconds=away, seed=options.seed)
        assert fleet.list_alive() == {node.pid for node in fleet.nodes}, "one was taken over"
    print(figures)
    assert figures.ok, figures.problems
    assert figures.slowest_return_seconds < RETURN_SECONDS


async def run_bursts(options: argparse.Namespace, folder: Path) -> None:
    async with open_fleet(folder) as (fleet, _):
        for seed in range(options.seed, options.seed + BURSTS):
            burst = await play_burst(fleet, seed)
            print(burst)
            assert burst.peak <= HELD_AT_ONCE, burst
            assert burst.is_plain, burst


async def run_million(_: argparse.Namespace, __: Path) -> None:
    show_pages(await play_million())


Run = Callable[[argparse.Namespace, Path], Coroutine[None, None, None]]
RUNS: Final[dict[str, Run]] = {
    "nodes": run_nodes,
    "outages": run_outages,
    "bursts": run_bursts,
    "shared_million": run_million,
}
