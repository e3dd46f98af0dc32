"""Compare the gateway with a bare aiohttp proxy: `python -m tests.bench.run`, about a minute.

Both stand in front of the same cheap provider on the loopback and are loaded in turn (A B A B), so
that other load on the machine affects both. The gateway does its whole work: key, hold, edits,
usage, and a charge on disk before the last bytes. Every reply is checked, and at the end the ledger
must have one charge for each. CPU time is that of the proxy's process alone. The exit code is 1 if
a reply or the ledger is wrong; a missed goal is printed, not an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.bench import books, figures, load, wire
from tests.bench.figures import Round, Scenario
from tests.bench.processes import Target, run_gateway, run_script
from tests.support.process import free_port

DISK_FOLDER: Final = "/var/tmp"
WARM_UP_SECONDS: Final = 0.5
MAX_SECONDS, MAX_ROUNDS, MAX_CONNECTIONS, MAX_EVENTS = 60.0, 20, 512, 10_000
"""Limits of the bench's options."""


@dataclass(slots=True)
class Bench:
    """The processes, and the number of requests sent to them."""

    bare: Target
    gateway: Target
    key: str = field(repr=False)
    events: int
    sent_to_gateway: int = 0

    @property
    def targets(self) -> tuple[Target, Target]:
        return self.bare, self.gateway

    def load(self, target: Target, scenario: Scenario, seconds: float) -> Round:
        slot = load.Slot(
            port=target.port,
            request=wire.make_request(target.host, self.key, scenario.mode),
            mode=scenario.mode,
            events=self.events,
        )
        before = target.read_cpu_seconds()
        tally = asyncio.run(load.run_slot(slot, scenario.connections, seconds))
        spent = target.read_cpu_seconds() - before
        if target is self.gateway:
            self.sent_to_gateway += tally.requests
        return Round(tally, spent)


def read_options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.4, help="of one slot (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="A B pairs (%(default)s)")
    parser.add_argument(
        "--connections",
        type=int,
        nargs="+",
        default=[1, 8, 64],
        metavar="N",
        help="of JSON; streams run at the most of them (1 8 64)",
    )
    parser.add_argument("--events", type=int, default=200, help="of a stream (%(default)s)")
    parser.add_argument(
        "--tick-ms", type=float, default=5.0, help="between a paced stream's events (%(default)s)"
    )
    parser.add_argument(
        "--modes", nargs="+", choices=wire.MODES, default=list(wire.MODES), help="loads (all)"
    )
    parser.add_argument("--json", action="store_true", help="the figures as JSON on stdout")
    options = parser.parse_args(words)
    within = (
        0 < options.seconds <= MAX_SECONDS
        and 0 < options.rounds <= MAX_ROUNDS
        and all(0 < one <= MAX_CONNECTIONS for one in options.connections)
        and 2 < options.events <= MAX_EVENTS
        and 0 < options.tick_ms <= 1000
    )
    if not within:
        parser.error(
            f"at most {MAX_SECONDS:.0f} seconds, {MAX_ROUNDS} rounds, {MAX_CONNECTIONS} "
            f"connections, {MAX_EVENTS} events, and all of them above 0"
        )
    return options


def plan(options: argparse.Namespace) -> list[Scenario]:
    most = max(options.connections)
    json_loads = [Scenario("json", count) for count in sorted(set(options.connections))]
    streams = [Scenario(mode, most) for mode in wire.MODES if mode != "json"]
    return [one for one in (*json_loads, *streams) if one.mode in options.modes]


def measure(bench: Bench, options: argparse.Namespace) -> dict[Scenario, dict[str, list[Round]]]:
    most = max(options.connections)
    for target in bench.targets:
        for mode in ("json", "burst"):
            bench.load(target, Scenario(mode, most), WARM_UP_SECONDS)
    rounds: dict[Scenario, dict[str, list[Round]]] = {}
    for scenario in plan(options):
        rounds[scenario] = {target.name: [] for target in bench.targets}
        for _ in range(options.rounds):
            for target in bench.targets:
                done = bench.load(target, scenario, options.seconds)
                rounds[scenario][target.name].append(done)
    return rounds


def sum_up(
    bench: Bench, rounds: dict[Scenario, dict[str, list[Round]]], most: int
) -> tuple[list[figures.Figures], list[figures.Ratio]]:
    table = [
        figures.sum_up(scenario, name, done)
        for scenario, by_target in rounds.items()
        for name, done in by_target.items()
    ]
    ratios = [
        figures.compare(
            scenario,
            by_target[bench.bare.name],
            by_target[bench.gateway.name],
            most_connections=most,
        )
        for scenario, by_target in rounds.items()
    ]
    return table, ratios


def read_memory(bench: Bench) -> dict[str, dict[str, float]]:
    return {
        target.name: {field: target.read_memory_mib(field) for field in ("VmRSS", "VmHWM")}
        for target in bench.targets
    }


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start everything, apply the load, check the ledger; return the report as one object."""
    began = time.monotonic()
    with ExitStack() as stack:
        upstream = stack.enter_context(
            run_script("upstream", f"--events={options.events}", f"--tick-ms={options.tick_ms}")
        )
        port = free_port()
        config = books.write_config(folder, port, upstream.port)
        key = books.add_caller(config)
        bare = stack.enter_context(
            run_script("bare_proxy", f"--upstream=http://127.0.0.1:{upstream.port}")
        )
        gateway = stack.enter_context(run_gateway(config, port))
        bench = Bench(bare, gateway, key, options.events)
        rounds = measure(bench, options)
        memory = read_memory(bench)
    table, ratios = sum_up(bench, rounds, max(options.connections))
    proof = books.prove(config)
    return {
        "python": platform.python_version(),
        "seconds": time.monotonic() - began,
        "table": figures.format_table(table),
        "ratio_lines": figures.format_ratios(ratios),
        **figures.to_json(table, ratios),
        "memory_mib": memory,
        "requests_sent_to_gateway": bench.sent_to_gateway,
        "charges": proof.charges,
        "audit_ok": proof.audit_ok,
        "ledger_exact": proof.is_exact(bench.sent_to_gateway),
    }


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, and so stops what was started
    with tempfile.TemporaryDirectory(prefix="gateway-bench-", dir=DISK_FOLDER) as folder:
        try:
            report = run(options, Path(folder))
        except load.WrongReply as error:
            print(f"a reply is wrong: {error}", file=sys.stderr)
            return 1
    table, ratio_lines = report.pop("table"), report.pop("ratio_lines")
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"{table}\n\n{ratio_lines}\n")
        for name, memory in report["memory_mib"].items():
            print(f"{name}: {memory['VmRSS']:.0f} MiB resident, {memory['VmHWM']:.0f} at most")
        print(
            f"ledger: {report['charges']} charges for {report['requests_sent_to_gateway']} requests"
            f", audit {'ok' if report['audit_ok'] else 'FAILED'}"
            f"; {report['seconds']:.0f} s, Python {report['python']}"
        )
    if not report["ledger_exact"]:
        print("the ledger does not match what was sent", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
