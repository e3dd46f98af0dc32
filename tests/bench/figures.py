"""Compute figures from tallies: rates, quantiles, cost, ratios; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.bench.load import Tally
from tests.bench.wire import Mode

GOALS: Final[dict[str, float]] = {"json": 1.0, "paced": 0.9}
"""The least ratio of gateway to bare proxy in work per CPU-second, at the most connections."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of load."""

    mode: Mode
    connections: int

    @property
    def name(self) -> str:
        return f"{self.mode} x{self.connections}"


@dataclass(frozen=True, slots=True)
class Round:
    """The work and cost of one target in one slot."""

    tally: Tally
    cpu_seconds: float

    @property
    def work_per_cpu_second(self) -> float:
        """Return events per CPU-second for streams, else requests."""
        work = self.tally.events or self.tally.requests
        return work / max(self.cpu_seconds, 0.01)


@dataclass(frozen=True, slots=True)
class Figures:
    """One target under one load, all rounds together."""

    scenario: str
    target: str
    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_seconds_per_1000_requests: float
    requests_per_cpu_second: float
    cpu_percent: float
    events_per_second: float
    events_per_cpu_second: float
    cpu_seconds_per_million_events: float
    events_per_read: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Gateway to bare proxy in work per CPU-second: over all rounds, least and most of one."""

    scenario: str
    ratio: float
    least: float
    most: float
    goal: float | None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return f"goal {self.goal:.1f}: {'met' if self.ratio >= self.goal else 'MISSED'}"


def sum_up(scenario: Scenario, target: str, rounds: Sequence[Round]) -> Figures:
    latencies = sorted(one for each in rounds for one in each.tally.latencies_ms)
    requests = len(latencies)
    seconds = sum(each.tally.seconds for each in rounds)
    cpu_seconds = sum(each.cpu_seconds for each in rounds)
    events = sum(each.tally.events for each in rounds)
    reads = sum(each.tally.reads for each in rounds)
    return Figures(
        scenario=scenario.name,
        target=target,
        requests=requests,
        requests_per_second=requests / seconds,
        p50_ms=latencies[requests // 2],
        p99_ms=latencies[requests * 99 // 100],
        cpu_seconds_per_1000_requests=1000 * cpu_seconds / requests,
        requests_per_cpu_second=requests / max(cpu_seconds, 0.01),
        cpu_percent=100 * cpu_seconds / seconds,
        events_per_second=events / seconds,
        events_per_cpu_second=events / max(cpu_seconds, 0.01),
        cpu_seconds_per_million_events=1e6 * cpu_seconds / events if events else 0.0,
        events_per_read=events / reads,
    )


def compare(
    scenario: Scenario, bare: Sequence[Round], gateway: Sequence[Round], *, most_connections: int
) -> Ratio:
    singly = [
        ours.work_per_cpu_second / theirs.work_per_cpu_second
        for theirs, ours in zip(bare, gateway, strict=True)
    ]
    return Ratio(
        scenario=scenario.name,
        ratio=_pool(gateway) / _pool(bare),
        least=min(singly),
        most=max(singly),
        goal=GOALS.get(scenario.mode) if scenario.connections == most_connections else None,
    )


def _pool(rounds: Sequence[Round]) -> float:
    work = sum(each.tally.events or each.tally.requests for each in rounds)
    return work / max(sum(each.cpu_seconds for each in rounds), 0.01)


_COLUMNS: Final = (
    ("load", 12, lambda one: one.scenario),
    ("target", 11, lambda one: one.target),
    ("req/s", 8, lambda one: f"{one.requests_per_second:.0f}"),
    ("p50 ms", 8, lambda one: f"{one.p50_ms:.2f}"),
    ("p99 ms", 8, lambda one: f"{one.p99_ms:.2f}"),
    ("CPU %", 6, lambda one: f"{one.cpu_percent:.0f}"),
    ("CPU-s/1000 req", 15, lambda one: f"{one.cpu_seconds_per_1000_requests:.3f}"),
    ("events/s", 9, lambda one: _or_dash(one.events_per_second)),
    ("events/CPU-s", 13, lambda one: _or_dash(one.events_per_cpu_second)),
    ("CPU-s/M events", 15, lambda one: _or_dash(one.cpu_seconds_per_million_events, 1)),
    ("events/read", 12, lambda one: _or_dash(one.events_per_read, 1)),
)


def _or_dash(value: float, digits: int = 0) -> str:
    return f"{value:.{digits}f}" if value else "-"


def format_table(figures: Sequence[Figures]) -> str:
    lines = ["".join(f"{name:>{width}}" for name, width, _ in _COLUMNS)]
    lines += ["".join(f"{show(one):>{width}}" for _, width, show in _COLUMNS) for one in figures]
    return "\n".join(lines)


def format_ratios(ratios: Sequence[Ratio]) -> str:
    lines = ["gateway / bare proxy, work per CPU-second (least and most of one round)"]
    lines += [
        f"{one.scenario:>12}  {one.ratio:5.2f}  ({one.least:.2f} to {one.most:.2f})  {one.verdict}"
        for one in ratios
    ]
    return "\n".join(lines)


def to_json(figures: Sequence[Figures], ratios: Sequence[Ratio]) -> dict[str, Any]:
    return {
        "figures": [asdict(one) for one in figures],
        "ratios": [asdict(one) | {"verdict": one.verdict} for one in ratios],
    }
