"""Several gateways on one PostgreSQL under load: killed at random, or left without their database.

As in `killing`, every request has a number, which the provider reports as its prompt tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import psycopg

from tests.extras.postgres.cluster import Cluster
from tests.extras.postgres.fleet import MODEL, WRONG_SUMS, Fleet, Node
from tests.long.killing import RICH, ROWS, Findings, Record, Row, answer, judge_rows, used
from tests.support.chat import say
from tests.support.client import Cut
from tests.support.waiting import until

__all__ = ["RICH", "Figures", "Load", "judge", "play_kills", "play_outages", "running_load"]

LOOK_SECONDS: Final = 0.2
RELEASE_SECONDS: Final = 10.0
"""In which the holds of a dead node must be free."""
LIFE_SECONDS: Final = (0.1, 1.5)
PAUSE_SECONDS: Final = 0.02
"""A caller's pause after a refusal."""


@dataclass(slots=True)
class NodeRecord(Record):
    """A request to one of the nodes."""

    node: Node = field(kw_only=True)


@dataclass(slots=True)
class Figures(Findings):
    """The results of a run."""

    faults: int = 0
    requests: int = 0
    complete: int = 0
    refused: int = 0
    cut: int = 0
    interrupted: int = 0
    withdrawn: int = 0
    looks: int = 0
    slowest_release_seconds: float = 0
    slowest_return_seconds: float = 0

    def __str__(self) -> str:
        return (
            f"{self.faults} faults, {self.requests} requests: {self.complete} complete,"
            f" {self.refused} refused, {self.cut} cut, {self.interrupted} interrupted,"
            f" {self.withdrawn} withdrawn; lost {len(self.lost)}, doubled {len(self.doubled)}, wrong"
            f" {len(self.wrong)} in {self.looks} looks; slowest release"
            f" {self.slowest_release_seconds:.1f} s, slowest return"
            f" {self.slowest_return_seconds:.2f} s"
        )


class Load:
    """Callers that never stop, on all nodes that are alive, and their records."""

    def __init__(self, fleet: Fleet) -> None:
        self.records: list[NodeRecord] = []
        self.is_on = True
        self._fleet = fleet
        self._key = fleet.callers["rich"].key

    async def call_on(self, draw: random.Random, *, stream: bool) -> None:
        while self.is_on:
            record = await self.call(draw.choice(self._fleet.alive), stream=stream)
            if record.status != 200:
                await asyncio.sleep(PAUSE_SECONDS)

    async def call(self, node: Node, *, stream: bool) -> NodeRecord:
        record = NodeRecord(len(self.records) + 1, stream, node=node)
        self.records.append(record)
        with contextlib.suppress(Cut, OSError):
            await self._call(record)
        return record

    async def _call(self, record: NodeRecord) -> None:
        body = say(MODEL, f"number {record.number}", stream=record.stream)
        async with record.node.chatting(self._key, body) as call:
            await record.hear(call, has_done=record.stream)


@contextlib.asynccontextmanager
async def running_load(
    fleet: Fleet, figures: Figures, seed: int, *, streams: int, others: int
) -> AsyncIterator[Load]:
    """Call on while the body runs, looking at the sums all the time; then let the calls end."""
    draw, load = random.Random(seed), Load(fleet)
    fleet.upstream.always(lambda exchange: answer(exchange, draw))
    async with asyncio.TaskGroup() as group:
        for number in range(streams + others):
            group.create_task(load.call_on(draw, stream=number < streams))
        looking = group.create_task(_look_on(fleet, figures))
        try:
            yield load
        finally:
            load.is_on = False
            looking.cancel()


async def _look_on(fleet: Fleet, figures: Figures) -> None:
    """Compare balances with entries, and holds with requests, at every moment."""
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            figures.wrong += [f"{row}" for row in await asyncio.to_thread(fleet.query, WRONG_SUMS)]
            figures.looks += 1
        await asyncio.sleep(LOOK_SECONDS)


def judge(fleet: Fleet, load: Load, figures: Figures, *, refusals: bool) -> None:
    """Compare what callers and the provider saw with the ledger. `refusals`: 503 is no wrong."""
    rows = [Row(*row) for row in fleet.query(ROWS)]
    by_id = {row.id: row for row in rows}
    figures.requests = len(load.records)
    figures.interrupted = sum(row.outcome == "interrupted" for row in rows)
    for record in load.records:
        _judge_record(record, by_id.get(record.request_id), figures, refusals=refusals)
    ((balance_nano,),) = fleet.query("SELECT balance_nano FROM accounts WHERE name = 'rich'")
    judge_rows(rows, balance_nano, figures, lambda number: used(number).cost_nano)
    figures.withdrawn = sum(row.corrected_nano > 0 for row in rows)
    _judge_calls(fleet, rows, figures)


def _judge_record(record: NodeRecord, row: Row | None, figures: Figures, *, refusals: bool) -> None:
    figures.complete += record.complete
    figures.cut += record.status == 200 and not record.complete
    is_free = row is None or row.state == "voided" or row.corrected_nano == row.cost_nano
    if record.complete:
        if row is None or is_free or row.number != record.number:
            figures.lost.append(f"{record} is {row}")
    elif record.status == 200:
        if row is None or (row.state != "posted" and row.outcome != "interrupted"):
            figures.wrong.append(f"{record} is {row}")
        if not record.node.dead and not (refusals and record.told):
            figures.wrong.append(f"{record} of a node that served on is {row}")
    elif record.status:
        figures.refused += 1
        if record.status != 503 or not (refusals or record.node.dead) or not is_free:
            figures.wrong.append(f"{record} is {row}")
    elif not record.node.dead:
        figures.wrong.append(f"{record} had no reply of a node that served on")


def _judge_calls(fleet: Fleet, rows: list[Row], figures: Figures) -> None:
    """Every call of the provider is charged once, or its row says why not."""
    texts = [one.json["messages"][0]["content"] for one in fleet.upstream.exchanges]
    called = Counter(int(text.split()[-1]) for text in texts)
    posted = {row.number for row in rows if row.state == "posted"}
    figures.wrong += [f"number {one} was charged, not called" for one in posted - called.keys()]
    figures.doubled += [f"number {one} was called twice" for one in called if called[one] > 1]
    voided = sum(row.state == "voided" for row in rows)
    if len(called.keys() - posted) > voided:
        figures.lost.append(f"{len(called.keys() - posted)} calls without a charge, {voided} voids")


async def play_kills(
    fleet: Fleet, *, kills: int, seed: int, streams: int = 15, others: int = 15
) -> Figures:
    """Kill a random node again and again, each time starting another one."""
    draw, figures = random.Random(seed), Figures()
    async with (
        asyncio.TaskGroup() as group,
        running_load(fleet, figures, seed, streams=streams, others=others) as load,
    ):
        for _ in range(kills):
            await asyncio.sleep(draw.uniform(*LIFE_SECONDS))
            victim = draw.choice(fleet.alive)
            victim.kill()
            figures.faults += 1
            group.create_task(_wait_for_release(fleet, victim, figures))
            await fleet.start_node()
    await _wait_for_charges(fleet)
    judge(fleet, load, figures, refusals=False)
    return figures


async def _wait_for_release(fleet: Fleet, node: Node, figures: Figures) -> None:
    began = time.monotonic()
    while await asyncio.to_thread(fleet.count_pending, node):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(LOOK_SECONDS)
    seconds = time.monotonic() - began
    figures.slowest_release_seconds = max(figures.slowest_release_seconds, seconds)
    if seconds > RELEASE_SECONDS:
        figures.wrong.append(f"the holds of a dead node were kept for {seconds:.1f} s")


async def play_outages(
    fleet: Fleet,
    cluster: Cluster,
    *,
    away_seconds: tuple[float, ...],
    seed: int,
    streams: int = 10,
    others: int = 10,
) -> Figures:
    """Stop the database for so long each time, in either way in turn."""
    draw, figures = random.Random(seed), Figures()
    modes = itertools.cycle(("fast", "immediate"))
    async with running_load(fleet, figures, seed, streams=streams, others=others) as load:
        for seconds, mode in zip(away_seconds, modes, strict=False):
            await asyncio.sleep(draw.uniform(*LIFE_SECONDS))
            await asyncio.to_thread(cluster.stop, "fast" if mode == "fast" else "immediate")
            figures.faults += 1
            await asyncio.sleep(seconds)
            await asyncio.to_thread(cluster.start)
            back = time.monotonic()
            await asyncio.gather(*(_wait_for_service(load, node) for node in fleet.alive))
            figures.slowest_return_seconds = max(
                figures.slowest_return_seconds, time.monotonic() - back
            )
    await _wait_for_charges(fleet)
    judge(fleet, load, figures, refusals=True)
    return figures


async def _wait_for_service(load: Load, node: Node) -> None:
    while not (await load.call(node, stream=False)).complete:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(PAUSE_SECONDS)


async def _wait_for_charges(fleet: Fleet) -> None:
    """Return when the charges are written that waited for the database."""

    def count() -> int:
        return len(fleet.query("SELECT 1 FROM requests WHERE state = 'pending'"))

    await until(lambda: not count(), "the queued charges to be written")
