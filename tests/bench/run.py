"""Put the gateway beside a bare aiohttp proxy: `python -m tests.bench.run`, about three minutes.

All targets (the provider itself, too) get each load in turn (A B C, A B C), so that other load on the
machine affects all of them. Each proxy runs on one core, the
provider and the callers on the others. The gateway does its whole work: key, hold, edits, usage, and
a charge on disk before the last bytes. Every reply is checked, and at the end the ledger must have
one charge for each. CPU time is that of the proxy's process, all threads. The exit code is 1 if a
reply or the ledger is wrong; a missed goal is printed, not an error.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.bench import books, figures, load, processes
from tests.bench.figures import BURST, HELD, JSON_MANY, JSON_ONE, PACED, Figures, Memory, Scenario
from tests.bench.processes import TARGET_CORES, Target, run_gateway, run_script, run_upstream
from tests.support.process import free_port

DISK_FOLDER: Final = "/var/tmp"
WARM_UP_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 1.5
"""From the start of a process until its memory is read."""
MAX_SECONDS, MAX_ROUNDS = 60.0, 20
"""Limits of the bench's options."""
EVENTS: Final = 200
"""The events of a stream."""
TICK_MS: Final = 25.0
"""Between two events of a paced stream."""
PACED_SECONDS: Final = 2.5
"""The measured part of the paced streams, which take 5 s; before it, all have begun."""
SCENARIOS: Final = (JSON_MANY, JSON_ONE, BURST, PACED)


@dataclass(slots=True)
class Bench:
    """The processes of one run, and the number of requests sent to the gateway."""

    targets: list[Target]
    config: Path
    key: str = field(repr=False)
    sent_to_gateway: int = 0

    def make_slot(self, target: Target, scenario: Scenario) -> load.Slot:
        return load.make_slot(target.port, self.key, scenario.mode, EVENTS)

    def load(self, target: Target, scenario: Scenario, seconds: float) -> Figures:
        slot = self.make_slot(target, scenario)
        if scenario.mode == "paced":
            tally, spent = asyncio.run(
                load.run_paced(slot, scenario.connections, PACED_SECONDS, target.read_cpu_seconds)
            )
        else:
            before = target.read_cpu_seconds()
            tally = asyncio.run(load.run_slot(slot, scenario.connections, seconds))
            spent = target.read_cpu_seconds() - before
        if target.name == figures.GATEWAY:
            self.sent_to_gateway += tally.requests
        return figures.compute(tally, spent)


def read_options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="of one slot (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each load (%(default)s)")
    names = [one.name for one in (*SCENARIOS, HELD)]
    parser.add_argument("--loads", nargs="+", choices=names, default=names, help="(all)")
    options = parser.parse_args(words)
    if not (0 < options.seconds <= MAX_SECONDS and 0 < options.rounds <= MAX_ROUNDS):
        parser.error(f"at most {MAX_SECONDS:.0f} seconds, {MAX_ROUNDS} rounds, and both above 0")
    return options


@contextmanager
def start(folder: Path) -> Iterator[Bench]:
    """Start the provider and all that stand in front of it."""
    with ExitStack() as stack:
        provider = stack.enter_context(run_upstream(EVENTS, TICK_MS))
        port = free_port()
        config = books.write_config(folder, port, provider.port)
        key = books.add_caller(config)
        targets = [
            stack.enter_context(run_gateway(config, port)),
            stack.enter_context(_run_bare(provider)),
            Target(figures.DIRECT, provider.pid, provider.port),
        ]
        yield Bench(targets, config, key)


def _run_bare(provider: Target) -> Any:
    return run_script("bare_proxy", f"--upstream=http://{provider.host}", cores=TARGET_CORES)


def measure(bench: Bench, options: argparse.Namespace) -> dict[Scenario, dict[str, list[Figures]]]:
    for target in bench.targets:
        for scenario in (JSON_MANY, BURST):
            bench.load(target, scenario, WARM_UP_SECONDS)
    rounds: dict[Scenario, dict[str, list[Figures]]] = {}
    for scenario in SCENARIOS:
        if scenario.name in options.loads:
            rounds[scenario] = {target.name: [] for target in bench.targets}
            for _ in range(options.rounds):
                for target in bench.targets:
                    done = bench.load(target, scenario, options.seconds)
                    rounds[scenario][target.name].append(done)
    return rounds


def measure_memory(folder: Path) -> dict[str, Memory]:
    """Read the memory of the gateway and of the bare proxy: idle, and with many streams open."""
    folder.mkdir()
    with start(folder) as bench:
        time.sleep(IDLE_SECONDS)
        return {
            target.name: _hold(bench, target)
            for target in bench.targets
            if target.name in (figures.GATEWAY, figures.BARE)
        }


def _hold(bench: Bench, target: Target) -> Memory:
    idle_mib = target.read_memory_mib("VmRSS")
    held: list[float] = []
    slot, count = bench.make_slot(target, HELD), HELD.connections
    asyncio.run(
        load.hold_streams(slot, count, lambda: held.append(target.read_memory_mib("VmRSS")))
    )
    return Memory(idle_mib, (held[0] - idle_mib) * 1024 / count)


def run(options: argparse.Namespace, folder: Path) -> bool:
    """Start everything, apply the loads and print the figures; return whether the ledger has each charge."""
    began = time.monotonic()
    memory = measure_memory(folder / "memory") if HELD.name in options.loads else {}
    with start(folder) as bench:
        rounds = measure(bench, options)
    proof, sent = books.prove(bench.config), bench.sent_to_gateway
    print(f"{figures.format_table(rounds)}\n\n{figures.format_goals(rounds, memory)}\n")
    for name, one in memory.items():
        print(f"{name}: {one.idle_mib:.1f} MiB idle, {one.kib_per_stream:.1f} KiB per open stream")
    audit, version = "ok" if proof.audit_ok else "FAILED", platform.python_version()
    print(f"ledger: {proof.charges} charges for {sent} requests, audit {audit}")
    print(f"{time.monotonic() - began:.0f} s, Python {version}")
    return proof.is_exact(sent)


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, and so stops what was started
    processes.raise_file_limit()
    os.sched_setaffinity(0, processes.OTHER_CORES)
    with tempfile.TemporaryDirectory(prefix="gateway-bench-", dir=DISK_FOLDER) as folder:
        try:
            is_exact = run(options, Path(folder))
        except load.WrongReply as error:
            print(f"a reply is wrong: {error}", file=sys.stderr)
            return 1
    if not is_exact:
        print("the ledger does not match what was sent", file=sys.stderr)
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
