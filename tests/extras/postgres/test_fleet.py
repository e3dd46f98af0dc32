"""Several gateways on one database: what the death of one, or of the database, does to the others.

The full runs are `python -m tests.long nodes`, `outages` and `bursts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.base.process import ExitCode
from tests.extras.postgres.bursts import HELD_AT_ONCE, play_burst
from tests.extras.postgres.cluster import Cluster, run_cluster
from tests.extras.postgres.fixtures import need_psycopg, need_server
from tests.extras.postgres.fleet import MODEL, Fleet, Node, run_fleet
from tests.extras.postgres.loads import RICH, Figures, judge, play_kills, play_outages, running_load
from tests.support import replies
from tests.support.chat import say
from tests.support.client import Reply
from tests.support.seed import Seed
from tests.support.upstream import Wait
from tests.support.waiting import until

pytestmark = [pytest.mark.slow]  # three nodes on a machine that may be busy

KILLS = 3
OUTAGES = (0.3, 6.0)
"""The last one is longer than the silence after which a node counts as dead."""


@pytest.fixture
def own_postgres() -> Iterator[Cluster]:
    """A server that the test may stop."""
    need_psycopg()
    with run_cluster(need_server(), durable=False) as cluster:
        yield cluster


async def test_killed_nodes_lose_and_double_nothing(tmp_path: Path, postgres_url: str) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    async with run_fleet(tmp_path, postgres_url, (RICH,)) as fleet:
        figures = await play_kills(fleet, kills=KILLS, seed=seed, streams=3, others=3)
        print(figures)
    assert figures.ok, figures.problems
    assert figures.faults == KILLS
    assert min(figures.complete, figures.interrupted, figures.looks) > 0


async def test_a_database_that_is_away_delays_charges_and_loses_none(
    tmp_path: Path, own_postgres: Cluster
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    async with run_fleet(tmp_path, own_postgres.make_database(), (RICH,)) as fleet:
        figures = await play_outages(
            fleet, own_postgres, away_seconds=OUTAGES, seed=seed, streams=3, others=3
        )
        print(figures)
        assert fleet.list_alive() == {node.pid for node in fleet.nodes}, "none is taken over"
    assert figures.ok, figures.problems
    assert figures.interrupted == 0
    assert min(figures.complete, figures.refused, figures.looks) > 0
    assert figures.slowest_return_seconds < 10, "the long run holds it to a second, alone"


async def test_bursts_over_three_nodes_spend_no_more_than_there_is(
    tmp_path: Path, postgres_url: str
) -> None:
    async with run_fleet(tmp_path, postgres_url, (RICH,)) as fleet:
        burst = await play_burst(fleet, 1, crowd=200)
    assert burst.is_plain, burst
    assert 0 < burst.peak <= HELD_AT_ONCE, burst


SEEDS = (RICH, Seed("three-a-minute", requests_per_minute=3))
TAKEN_OVER_SECONDS = 10.0
EXIT_SECONDS = 10.0
SKEW_SECONDS = 600
LOAD_SECONDS = 7.0
"""Longer than the silence after which a node counts as dead."""


@pytest.fixture
async def fleet(tmp_path: Path, postgres_url: str) -> AsyncIterator[Fleet]:
    async with run_fleet(tmp_path, postgres_url, SEEDS, nodes=0) as fleet:
        yield fleet


async def ask(fleet: Fleet, node: Node, name: str = "rich") -> Reply:
    return await node.chat(fleet.callers[name].key, say(MODEL, "number 1"))


async def test_a_frozen_node_is_taken_over_and_charges_nothing_more(fleet: Fleet) -> None:
    frozen, *others = await fleet.start_nodes(2)
    go_on, key = asyncio.Event(), fleet.callers["rich"].key
    usage = replies.usage(5, 7)
    chunks = list(replies.sse_reply(replies.stream_chunks(["a"], usage)))
    fleet.upstream.play(
        [*chunks[:2], Wait(go_on), *chunks[2:]],
        [Wait(go_on), *replies.json_reply(replies.completion("b", usage=usage))],
    )
    fleet.upstream.always(replies.json_reply(replies.completion("c", usage=usage)))
    async with contextlib.AsyncExitStack() as stack:
        stream = await stack.enter_async_context(
            frozen.chatting(key, say(MODEL, "number 2", stream=True))
        )
        await stream.read_head()
        await stream.read_piece()
        whole = await stack.enter_async_context(frozen.chatting(key, say(MODEL, "number 3")))
        await fleet.upstream.wait_for(2)
        frozen.freeze()
        frozen_at = time.monotonic()
        while fleet.count_pending(frozen):
            assert time.monotonic() < frozen_at + TAKEN_OVER_SECONDS
            assert {(await ask(fleet, node)).status for node in others} == {200}
        frozen.dead = True
        go_on.set()
        frozen.thaw()
        told = await stream.read_all()
        refused = await whole.read_all()
    assert (stream.status, told.complete) == (200, True)
    assert b'"error"' in told.body
    assert replies.DONE not in told.body
    assert (refused.status, refused.headers["x-should-retry"]) == (503, "false")
    assert frozen.process is not None
    assert await asyncio.to_thread(frozen.process.wait, EXIT_SECONDS) == ExitCode.FAILED
    assert "was taken over" in frozen.log
    assert "Traceback" not in frozen.log
    assert any("is gone: 2 requests in flight" in node.log for node in others)
    ends = "SELECT outcome, cost_nano FROM requests WHERE id = %s"
    for id_ in (told.request_id, refused.request_id):
        assert fleet.query(ends, id_) == [("interrupted", 0)]
        assert fleet.query("SELECT 1 FROM entries WHERE request_id = %s", id_) == []


async def test_a_node_that_is_stopped_ends_its_row_and_interrupts_nothing(fleet: Fleet) -> None:
    leaving, *others = await fleet.start_nodes(3)
    figures = Figures()
    async with running_load(fleet, figures, 1, streams=2, others=2) as load:
        await until(lambda: figures.looks > 2, "the load")
        leaving.dead = True  # it gets no new calls
        await asyncio.to_thread(leaving.stop)
        assert fleet.list_alive() == {node.pid for node in others}
        told = len(load.records)
        await until(lambda: len(load.records) > told + 20, "the others to serve on")
    judge(fleet, load, figures, refusals=False)
    assert figures.ok, figures.problems
    assert (figures.cut, figures.interrupted) == (0, 0)


async def test_wrong_clocks_change_nothing(fleet: Fleet) -> None:
    """No node is taken over; ids, times and rates are the database's."""
    for ahead in (SKEW_SECONDS, -SKEW_SECONDS, 0):
        await fleet.start_node(clock_ahead_seconds=ahead)
    figures = Figures()
    async with running_load(fleet, figures, 2, streams=1, others=1) as load:
        await asyncio.sleep(LOAD_SECONDS)
        fast, slow, right = fleet.nodes
        rated = [await ask(fleet, node, "three-a-minute") for node in (fast, slow, right, slow)]
    assert [one.status for one in rated] == [200, 200, 200, 429]
    assert 0 < int(rated[-1].headers["retry-after"]) <= 20
    assert fleet.list_alive() == {node.pid for node in fleet.nodes}
    wrong = (
        "SELECT count(*) FILTER (WHERE abs(started_ms - created_ms) > 5000"
        " OR abs(ended_ms - created_ms) > 1000), count(*) FROM requests"
        " JOIN entries ON entries.request_id = requests.id"
    )
    ((off, charges),) = fleet.query(wrong)
    assert off == 0 < charges
    drift = "abs(('x' || substr(id, 5, 12))::bit(48)::bigint - started_ms)"
    assert fleet.query(f"SELECT count(*) FROM requests WHERE {drift} > 1000") == [(0,)]
    load.records = [one for one in load.records if one.number != 1]
    assert figures.wrong == []
    assert all(one.complete for one in load.records)
