"""Records of the calls in a span of time: by step, altogether, and the groups that became slower."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from gateway.base.times import DAY_MS, HOUR_MS, MINUTE_MS
from gateway.extras.observations.records import Latency

Dimension = Literal["account", "provider", "model"]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)

_STEPS: Final = ((2 * HOUR_MS, MINUTE_MS), (DAY_MS, 5 * MINUTE_MS))
"""The longest span of each step; longer ones have steps of an hour."""
LEAST_REPLIES: Final = 5
"""The fewest replies in each of two spans for which a group is compared: fewer prove nothing."""
LEAST_TOTALS: Final = 100
"""The fewest replies in each of two spans for which totals are compared: they depend on the lengths of the
replies, so totals of few replies vary by chance."""
LEAST_GROWTH: Final = 20
"""The growth in percent from which on a group is slower: less is chance."""


@dataclass(frozen=True, slots=True)
class Span:
    first_ms: int
    end_ms: int
    """The end; it is exclusive."""
    step_ms: int

    @property
    def before(self) -> Span:
        """Return the span of the same length that ends where this one begins."""
        width_ms = self.end_ms - self.first_ms
        return Span(self.first_ms - width_ms, self.first_ms, self.step_ms)


def make_span(first_ms: int, end_ms: int, least_step_ms: int = 0) -> Span:
    """Choose the step, and widen the span to whole steps."""
    width_ms = end_ms - first_ms
    step_ms = next((step for longest, step in _STEPS if width_ms <= longest), HOUR_MS)
    step_ms = max(step_ms, least_step_ms)
    return Span(first_ms // step_ms * step_ms, -(-end_ms // step_ms) * step_ms, step_ms)


Failures = Mapping[str, int]
"""Calls that were not complete, by outcome and status: `upstream_error 502`."""


@dataclass(frozen=True, slots=True)
class Step:
    """The calls that began in a step, or in a whole span."""

    at_ms: int
    latency: Latency
    """The latency of complete replies."""
    failures: Failures = field(default_factory=dict)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def calls(self) -> int:
        return self.latency.calls + self.failed


Measure = Literal["first_byte", "total"]


@dataclass(frozen=True, slots=True)
class Group:
    """The replies of an account, a provider or a model, in the span and in the one before."""

    name: str
    now: Latency
    before: Latency
    measure: Measure
    """The times that grew."""
    growth_percent: int


def _compare(name: str, now: Latency, before: Latency) -> Group:
    """Compare the first bytes and, of many replies, the totals.

    p50 and p95 of the first byte are added: one may stay where only some are slow. Of the totals both must grow,
    as a few long replies alone raise p95.
    """
    growth = _grow(
        (now.first_byte_p50_ms or 0) + (now.first_byte_p95_ms or 0),
        (before.first_byte_p50_ms or 0) + (before.first_byte_p95_ms or 0),
    )
    if growth < LEAST_GROWTH and min(now.calls, before.calls) >= LEAST_TOTALS:
        totals = min(
            _grow(now.total_p50_ms, before.total_p50_ms),
            _grow(now.total_p95_ms, before.total_p95_ms),
        )
        if totals >= LEAST_GROWTH:
            return Group(name, now, before, "total", totals)
    return Group(name, now, before, "first_byte", growth)


def _grow(now_ms: int | None, before_ms: int | None) -> int:
    least_ms = max(before_ms or 0, 1)
    return ((now_ms or 0) - least_ms) * 100 // least_ms


@dataclass(frozen=True, slots=True)
class Slower:
    """The groups of a dimension that became slower."""

    groups: tuple[Group, ...]
    """Those that became slower, the most first."""
    compared: int
    """How many have enough replies in both spans."""


def find_slower(now: Mapping[str, Latency], before: Mapping[str, Latency]) -> Slower:
    """Compare groups by name."""
    known = [
        _compare(name, now[name], before[name])
        for name in now.keys() & before.keys()
        if min(now[name].calls, before[name].calls) >= LEAST_REPLIES
    ]
    slower = [one for one in known if one.growth_percent >= LEAST_GROWTH]
    slower.sort(key=lambda one: (-one.growth_percent, one.name))
    return Slower(tuple(slower), len(known))


Who = tuple[int, str, str]
"""Account, provider and model."""
Failing = Mapping[str, Mapping[Dimension, Counter[str]]]
"""How many calls failed, by kind of failure and by the names of a dimension."""


def count_failing(found: Iterable[tuple[Who, Failures]], names: Mapping[int, str]) -> Failing:
    """Sum up failures by kind, and by account, provider and model; `names` has those of accounts."""
    failing: dict[str, dict[Dimension, Counter[str]]] = defaultdict(
        lambda: {one: Counter() for one in DIMENSIONS}
    )
    for (account_id, provider, model), failures in found:
        for kind, failed in failures.items():
            failing[kind]["account"][names[account_id]] += failed
            failing[kind]["provider"][provider] += failed
            failing[kind]["model"][model] += failed
    return failing


@dataclass(frozen=True, slots=True)
class Trends:
    span: Span
    is_exact: bool
    """False if it was computed from sums by hour."""
    steps: Sequence[Step]
    """Those with calls, in order."""
    total: Step
    before: Step | None
    """The span before; None if it is not known."""
    slower: Mapping[Dimension, Slower]
    """Dimensions that could be compared."""
    failing: Failing
