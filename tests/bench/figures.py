"""Compute figures from tallies, and hold them to the goals, as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Final, Literal, cast

from tests.bench.load import Tally
from tests.bench.wire import Mode

GATEWAY: Final = "gateway"
BARE: Final = "bare_proxy"
DIRECT: Final = "direct"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of load."""

    mode: Mode
    connections: int

    @property
    def name(self) -> str:
        return f"{self.mode} x{self.connections}"


JSON_MANY: Final = Scenario("json", 64)
JSON_ONE: Final = Scenario("json", 1)
BURST: Final = Scenario("burst", 64)
PACED: Final = Scenario("paced", 500)
"""At the default tick, 20,000 events a second in all."""
HELD: Final = Scenario("held", 2000)


@dataclass(frozen=True, slots=True)
class Figures:
    """One target under one load in one round, or the medians of all rounds."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_percent: float
    work_per_cpu_second: float
    """Events of streams, else requests."""
    cpu_us_per_work: float
    events_per_read: float = 0.0
    first_p50_ms: float = 0.0
    first_p99_ms: float = 0.0
    delay_p50_ms: float = 0.0
    delay_p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a fresh process."""

    idle_mib: float
    kib_per_stream: float


Rounds = Mapping[Scenario, Mapping[str, Sequence[Figures]]]
"""The figures of each round, by load and target; all targets took turns."""


Relation = Literal["is", "ratio", "difference"]


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table of goals: a figure of the gateway, as such or relative to another's."""

    title: str
    scenario: Scenario
    figure: str
    limit: float
    at_least: bool = False
    relation: Relation = "is"
    other: str = BARE

    def compute(self, rounds: Rounds) -> list[float]:
        """Return the value in each round."""
        targets = rounds[self.scenario]
        ours, theirs = (
            [float(getattr(one, self.figure)) for one in targets[name]]
            for name in (GATEWAY, self.other)
        )
        if self.relation == "is":
            return ours
        if self.relation == "difference":
            return [one - other for one, other in zip(ours, theirs, strict=True)]
        return [one / other for one, other in zip(ours, theirs, strict=True)]


def read_goals() -> Iterator[Goal]:
    """Read `goals.txt`; the first line names the columns."""
    scenarios = {one.name: one for one in (JSON_MANY, JSON_ONE, BURST, PACED)}
    for line in Path(__file__).with_name("goals.txt").read_text("utf-8").splitlines()[1:]:
        title, load, figure, told, relation, other = re.split("  +", line)
        at_least, limit = told.startswith("at least"), float(told.split()[-1])
        kind = cast("Relation", relation)
        yield Goal(title, scenarios[load], figure, limit, at_least, kind, other)


GOALS: Final = tuple(read_goals())
MEMORY_GOALS: Final = (
    ("RSS idle, MiB", "idle_mib", 45.0),
    (f"RSS per open stream at {HELD.connections}, KiB", "kib_per_stream", 40.0),
)


def compute(tally: Tally, cpu_seconds: float) -> Figures:
    cpu_seconds = max(cpu_seconds, 0.01)
    work = tally.events or tally.requests
    return Figures(
        requests_per_second=0.0 if tally.delays_ms else tally.requests / tally.seconds,
        p50_ms=0.0 if tally.delays_ms else find_quantile(tally.latencies_ms, 50),
        p99_ms=0.0 if tally.delays_ms else find_quantile(tally.latencies_ms, 99),
        cpu_percent=100 * cpu_seconds / tally.seconds,
        work_per_cpu_second=work / cpu_seconds,
        cpu_us_per_work=1e6 * cpu_seconds / work,
        events_per_read=tally.events / tally.reads,
        first_p50_ms=find_quantile(tally.first_ms, 50),
        first_p99_ms=find_quantile(tally.first_ms, 99),
        delay_p50_ms=find_quantile(tally.delays_ms, 50),
        delay_p99_ms=find_quantile(tally.delays_ms, 99),
    )


def find_quantile(values: Sequence[float], percent: int) -> float:
    """Return 0 where nothing was measured."""
    return sorted(values)[len(values) * percent // 100] if values else 0.0


def find_median(rounds: Sequence[Figures]) -> Figures:
    """Return the median of each figure on its own."""
    return Figures(
        **{one.name: median(getattr(each, one.name) for each in rounds) for one in fields(Figures)}
    )


_COLUMNS: Final = (
    ("load", 12, None, 0),
    ("target", 12, None, 0),
    ("req/s", 9, "requests_per_second", 0),
    ("p50 ms", 9, "p50_ms", 2),
    ("p99 ms", 9, "p99_ms", 2),
    ("CPU %", 7, "cpu_percent", 0),
    ("work/CPU-s", 12, "work_per_cpu_second", 0),
    ("CPU-µs/work", 13, "cpu_us_per_work", 1),
    ("events/read", 13, "events_per_read", 1),
    ("first p50", 11, "first_p50_ms", 1),
    ("first p99", 11, "first_p99_ms", 1),
    ("delay p50", 11, "delay_p50_ms", 2),
    ("delay p99", 11, "delay_p99_ms", 2),
)


def format_table(rounds: Rounds) -> str:
    lines = ["".join(f"{name:>{width}}" for name, width, _, _ in _COLUMNS)]
    for scenario, by_target in rounds.items():
        for target, done in by_target.items():
            medians = find_median(done)
            cells = [f"{scenario.name:>12}{target:>12}"]
            for _, width, figure, digits in _COLUMNS[2:]:
                value = getattr(medians, figure or "")
                cells.append(f"{f'{value:.{digits}f}' if value else '-':>{width}}")
            lines.append("".join(cells))
    return "\n".join(lines)


def format_goals(rounds: Rounds, memory: Mapping[str, Memory]) -> str:
    """Hold the figures to the goals: the median of the rounds, in brackets their least and most."""
    lines = [f"{'goal':56}{'value':>8}   {'rounds':17}{'limit':8}"]
    lines += (
        _format_goal(goal.title, goal.compute(rounds), goal.limit, goal.at_least)
        for goal in GOALS
        if goal.scenario in rounds
    )
    for title, figure, limit in MEMORY_GOALS if GATEWAY in memory else ():
        lines.append(_format_goal(title, [getattr(memory[GATEWAY], figure)], limit, False))
    return "\n".join(lines)


def _format_goal(title: str, values: Sequence[float], limit: float, at_least: bool) -> str:
    value, least, most = median(values), min(values), max(values)
    spread = f"({least:.2f} to {most:.2f})" if least != most else ""
    verdict = "met" if (value >= limit if at_least else value <= limit) else "MISSED"
    sign = "≥" if at_least else "≤"
    return f"{title:56}{value:8.2f}   {spread:17}{f'{sign} {limit:g}':8}{verdict}"
