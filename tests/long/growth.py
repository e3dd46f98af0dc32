"""How the start and the cost of a request grow with keys and rows.

A gateway each for small and large databases, loaded in turn, so that other load on the machine
affects all of them. Times of the start are CPU times: from exec to the first completion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from gateway.ledger.sqlite.schema import connect
from tests.bench import books, load, wire
from tests.bench.processes import Target, run_gateway, run_script
from tests.long.million import History, list_statements, write_history
from tests.support.process import free_port

CONNECTIONS: Final = 64
SLOT_SECONDS: Final = 2.0
WARM_UP_SECONDS: Final = 0.5
KEYS_PER_ACCOUNT: Final = 2


@dataclass(frozen=True, slots=True)
class Size:
    keys: int
    rows: int


SIZES: Final = (Size(10, 1), Size(100_000, 1), Size(10, 1_000_000), Size(100_000, 1_000_000))


@dataclass(slots=True)
class Figures:
    size: Size
    start_seconds: float
    start_mib: float
    request_ms: list[float] = field(default_factory=list)
    """CPU milliseconds of one request, for each slot."""

    @property
    def median_ms(self) -> float:
        return median(self.request_ms)

    def __str__(self) -> str:
        return (
            f"{self.size.keys:7} keys, {self.size.rows:9} rows: started in {self.start_seconds:.2f} s"
            f" with {self.start_mib:.0f} MiB, {self.median_ms:.3f} ms a request"
        )


def play_growth(folder: Path, sizes: Sequence[Size], rounds: int) -> list[Figures]:
    """Start a gateway for each size and load them in turn."""
    with ExitStack() as stack:
        upstream = stack.enter_context(run_script("upstream", "--events=20", "--tick-ms=5"))
        places = [_fill(folder / str(number), size, upstream) for number, size in enumerate(sizes)]
        started = [_start(stack, size, *place) for size, place in zip(sizes, places, strict=True)]
        for _ in range(rounds):
            for target, key, figures in started:
                before = target.read_cpu_seconds()
                tally = asyncio.run(
                    load.run_slot(_make_slot(target, key), CONNECTIONS, SLOT_SECONDS)
                )
                spent = target.read_cpu_seconds() - before
                figures.request_ms.append(1000 * spent / tally.requests)
        return [figures for _, _, figures in started]


def _fill(folder: Path, size: Size, upstream: Target) -> tuple[Path, int, str]:
    """Write a database of this size; return the configuration, its port and a key."""
    folder.mkdir()
    port = free_port()
    config = books.write_config(folder, port, upstream.port)
    key = books.add_caller(config)
    numbers = {
        "accounts": -(-size.keys // KEYS_PER_ACCOUNT),
        "keys": size.keys,
        "each": KEYS_PER_ACCOUNT,
    }
    with closing(connect(config.with_name("gateway.db"))) as connection:
        write_history(connection, History(requests=size.rows))
        connection.execute("BEGIN IMMEDIATE")
        for sql in list_statements("growth"):
            connection.execute(sql, numbers)
        connection.execute("COMMIT")
    return config, port, key


def _start(
    stack: ExitStack, size: Size, config: Path, port: int, key: str
) -> tuple[Target, str, Figures]:
    target = stack.enter_context(run_gateway(config, port))
    asyncio.run(load.run_requests(_make_slot(target, key), 1))
    figures = Figures(size, target.read_cpu_seconds(), target.read_memory_mib("VmRSS"))
    asyncio.run(load.run_slot(_make_slot(target, key), CONNECTIONS, WARM_UP_SECONDS))
    return target, key, figures


def _make_slot(target: Target, key: str) -> load.Slot:
    request = wire.make_request(target.host, key, "json")
    return load.Slot(port=target.port, request=request, mode="json", events=0)
