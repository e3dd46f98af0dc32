"""Put the gateway on PostgreSQL beside the gateway on SQLite: `python -m tests.extras.postgres.bench`.

Both get each load in turn. The gateways run on one core; PostgreSQL, the provider and the callers on
the others. The server waits for the disk at each commit, as SQLite does. Then several nodes, on any
core, share one database and one account, beside one node alone. Two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench import books, figures, load, processes
from tests.bench.figures import JSON_MANY, JSON_ONE, Figures, Scenario
from tests.bench.processes import ALL_CORES, TARGET_CORES, Target, run_gateway, run_upstream
from tests.bench.run import DISK_FOLDER, EVENTS, TICK_MS, WARM_UP_SECONDS
from tests.extras.postgres.cluster import find_server, run_cluster
from tests.support.process import free_port

NODES: Final = 3
SCENARIOS: Final = (JSON_MANY, JSON_ONE)


def load_one(target: Target, key: str, scenario: Scenario, seconds: float) -> Figures:
    slot = load.make_slot(target.port, key, scenario.mode, EVENTS)
    before = target.read_cpu_seconds()
    tally = asyncio.run(load.run_slot(slot, scenario.connections, seconds))
    return figures.compute(tally, target.read_cpu_seconds() - before)


@contextmanager
def start_node(
    folder: Path, provider: Target, url: str = "", cores: Sequence[int] = TARGET_CORES
) -> Iterator[tuple[Target, Path]]:
    folder.mkdir()
    port = free_port()
    config = books.write_config(folder, port, provider.port, url)
    with run_gateway(config, port, cores=cores) as target:
        yield target, config


def compare(stack: ExitStack, folder: Path, url: str, options: argparse.Namespace) -> None:
    provider = stack.enter_context(run_upstream(EVENTS, TICK_MS))
    sides = {}
    for name, its_url in (("SQLite", ""), ("PostgreSQL", url)):
        target, config = stack.enter_context(start_node(folder / name, provider, its_url))
        sides[name] = (target, books.add_caller(config))
    for target, key in sides.values():
        load_one(target, key, JSON_MANY, WARM_UP_SECONDS)
    for scenario in SCENARIOS:
        found: dict[str, list[Figures]] = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, (target, key) in sides.items():
                found[name].append(load_one(target, key, scenario, options.seconds))
        for name, ones in found.items():
            print(
                f"{scenario.name:10} {name:12}"
                f" {median(one.work_per_cpu_second for one in ones):8.0f} requests/CPU-s"
                f" {median(one.requests_per_second for one in ones):8.0f} requests/s"
                f" p50 {median(one.p50_ms for one in ones):6.2f} ms"
                f" p99 {median(one.p99_ms for one in ones):6.2f} ms"
            )


def share(stack: ExitStack, folder: Path, url: str, options: argparse.Namespace) -> None:
    """One hot account: one node alone, then all nodes, each with as many connections, on any core."""
    provider = stack.enter_context(run_upstream(EVENTS, TICK_MS))
    nodes = [
        stack.enter_context(start_node(folder / f"node{number}", provider, url, ALL_CORES))
        for number in range(NODES)
    ]
    key = books.add_caller(nodes[0][1])
    for count in (1, NODES, 1, NODES):
        with ThreadPoolExecutor(count) as threads:
            tasks = [
                threads.submit(load_one, target, key, JSON_MANY, options.seconds)
                for target, _ in nodes[:count]
            ]
            rate = sum(task.result().requests_per_second for task in tasks)
        print(f"{count} node{'s' if count > 1 else ''}, one account: {rate:.0f} requests/s")
    proof = books.prove(nodes[0][1])
    print(f"{proof.charges} charges, audit {'ok' if proof.audit_ok else 'FAILED'}")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one slot (%(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="of each load (%(default)s)")
    options = parser.parse_args(words)
    programs = find_server()
    if programs is None:
        print("no PostgreSQL server", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, and so stops what was started
    processes.raise_file_limit()
    with (
        tempfile.TemporaryDirectory(prefix="gateway-bench-", dir=DISK_FOLDER) as folder,
        run_cluster(programs) as cluster,
    ):
        for measure in (compare, share):
            with ExitStack() as stack:
                measure(stack, Path(folder), cluster.make_database(), options)
        assert "deadlock" not in cluster.log
    return 0


if __name__ == "__main__":
    sys.exit(main())
