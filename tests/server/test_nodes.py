"""Several gateways on one database: what the death of one, or of the database, does to the others.

The full runs are `python -m tests.long nodes`, `outages` and `bursts`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long.bursts import HELD_AT_ONCE, play_burst
from tests.long.nodes import RICH, play_kills, play_outages
from tests.support.databases import need_psycopg, need_server
from tests.support.nodes import run_fleet
from tests.support.postgres import Cluster, run_cluster

KILLS = 5
OUTAGES = (0.0, 0.3, 8.0)
"""The last one is longer than the silence after which a node counts as dead."""


@pytest.fixture
def own_postgres() -> Iterator[Cluster]:
    """A server that the test may stop."""
    need_psycopg()
    with run_cluster(need_server(), durable=False) as cluster:
        yield cluster


@pytest.mark.slow
async def test_killed_nodes_lose_and_double_nothing(tmp_path: Path, postgres_url: str) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    async with run_fleet(tmp_path, postgres_url, (RICH,)) as fleet:
        figures = await play_kills(fleet, kills=KILLS, seed=seed)
        print(figures)
    assert figures.ok, figures.problems
    assert figures.faults == KILLS
    assert min(figures.complete, figures.interrupted, figures.looks) > 0


@pytest.mark.slow
async def test_a_database_that_is_away_delays_charges_and_loses_none(
    tmp_path: Path, own_postgres: Cluster
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    async with run_fleet(tmp_path, own_postgres.make_database(), (RICH,)) as fleet:
        figures = await play_outages(fleet, own_postgres, away_seconds=OUTAGES, seed=seed)
        print(figures)
        assert fleet.list_alive() == {node.pid for node in fleet.nodes}, "none is taken over"
    assert figures.ok, figures.problems
    assert figures.interrupted == 0
    assert min(figures.complete, figures.refused, figures.looks) > 0
    assert figures.slowest_return_seconds < 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_burst_over_three_nodes_spends_no_more_than_there_is(
    tmp_path: Path, postgres_url: str, seed: int
) -> None:
    async with run_fleet(tmp_path, postgres_url, (RICH,)) as fleet:
        burst = await play_burst(fleet, seed)
    print(burst)
    assert burst.is_plain
    assert 0 < burst.peak <= HELD_AT_ONCE
