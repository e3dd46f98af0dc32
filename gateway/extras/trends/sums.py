"""Trends computed from the sums by hour, whose number does not grow with the calls.

They know the times of an account, or of a provider's model, and of 31 days; their percentiles are
interpolated within buckets. A model's times are those of its routes, whichever model was asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import orjson

from gateway.base.ids import find_first_id
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.config.records import Config
from gateway.extras.observations.book import KEPT_MS
from gateway.extras.observations.records import Latency, LatencyCount, measure_latency
from gateway.extras.reports.records import CallFilter
from gateway.extras.trends.records import (
    Dimension,
    Failing,
    Slower,
    Span,
    Step,
    Trends,
    count_failing,
    find_slower,
)
from gateway.ledger.sql.database import Part, Value, read_script

_SQL: Final = read_script(__file__)
_PLACES: Final[Mapping[Dimension, str]] = {
    "account": "account_id",
    "provider": "provider",
    "model": "provider || '/' || upstream_model",
}
COMPARED_MS: Final = DAY_MS + HOUR_MS
"""The longest span in which groups are compared: each hour has rows for each of them."""

Counts = Mapping[int | str, list[LatencyCount]]


def can_tell(chosen: CallFilter) -> bool:
    """Return whether the sums can answer the filter: an account's have neither provider nor model."""
    return chosen.account_id is None or (chosen.provider is None and chosen.model is None)


def are_kept(span: Span, now_ms: int) -> bool:
    return span.first_ms >= now_ms - KEPT_MS


class SumBook(Part):
    def compute(
        self, chosen: CallFilter, span: Span, config: Config, names: Mapping[int, str]
    ) -> Trends:
        """Compute the trends of a span of hours. Call this within a snapshot.

        If not all sums of the span before are kept, it is left out: the rest would look like few calls.
        """
        values = {**_narrow(chosen, config), **_bound(span)}
        earlier = {**values, **_bound(span.before)}
        steps, total = self._read_steps(values)
        is_kept = are_kept(span.before, self._database.clock())
        before = self._read_steps(earlier)[1] if is_kept else None
        slower: dict[Dimension, Slower] = {}
        if is_kept and span.end_ms - span.first_ms <= COMPARED_MS:
            models = _find_models(config)
            find_names: dict[Dimension, Callable[[int | str], Iterable[str]]] = {
                "account": lambda id_: [names[int(id_)]],
                "provider": lambda name: [str(name)],
                "model": lambda route: models.get(str(route), ()),
            }
            for one in _find_comparable(chosen):
                now, then = (self._read_counts(one, each) for each in (values, earlier))
                find = find_names[one]
                slower[one] = find_slower(_measure(now, find), _measure(then, find))
        failing = self._read_failing(values, names)
        return Trends(
            span,
            is_exact=False,
            steps=steps,
            total=total,
            before=before,
            slower=slower,
            failing=failing,
        )

    def _read_failing(self, values: Mapping[str, Value], names: Mapping[int, str]) -> Failing:
        found = self._database.read_rows(_SQL["failing"], values)
        return count_failing(((tuple(who), {kind: failed}) for kind, failed, *who in found), names)

    def _read_steps(self, values: Mapping[str, Value]) -> tuple[list[Step], Step]:
        """Return the hours with calls, and all of them together."""
        counts = self._read(values, "hour")
        failures: dict[int, Counter[str]] = defaultdict(Counter)
        for hour, failure, failed in self._database.read_rows(_SQL["failures"], values):
            failures[hour][failure] += failed
        hours = sorted({*map(int, counts), *failures})
        steps = [
            Step(
                hour * HOUR_MS, measure_latency(counts.get(hour, ())), failures.get(hour, Counter())
            )
            for hour in hours
        ]
        every = measure_latency(one for found in counts.values() for one in found)
        failed = sum(failures.values(), Counter[str]())
        return steps, Step(int(values["first"] or 0) * HOUR_MS, every, failed)

    def _read_counts(self, dimension: Dimension, values: Mapping[str, Value]) -> Counts:
        scope = "account" if dimension == "account" else "route"
        return self._read({**values, "scope": scope}, _PLACES[dimension])

    def _read(self, values: Mapping[str, Value], place: str) -> Counts:
        counts: dict[int | str, list[LatencyCount]] = defaultdict(list)
        for name, *count in self._database.read_rows(_SQL["latencies"].format(place=place), values):
            counts[name].append(LatencyCount((), *count))
        return counts


def _find_comparable(chosen: CallFilter) -> list[Dimension]:
    """Return the dimensions whose sums know the filter."""
    if chosen.account_id is not None:
        return []
    is_wide = chosen.provider is None and chosen.model is None
    return ["account", "provider", "model"] if is_wide else ["provider", "model"]


def _narrow(chosen: CallFilter, config: Config) -> dict[str, Value]:
    model = None if chosen.model is None else config.models.get(chosen.model)
    routes = [f"{one.provider}/{one.upstream_model}" for one in (model.routes if model else ())]
    return {
        "scope": "route" if chosen.account_id is None else "account",
        "account": chosen.account_id,
        "provider": chosen.provider,
        "model": chosen.model,
        "routes": None if chosen.model is None else orjson.dumps(routes).decode(),
    }


def _bound(span: Span) -> dict[str, Value]:
    return {
        "first": span.first_ms // HOUR_MS,
        "end": span.end_ms // HOUR_MS,
        "low": find_first_id(span.first_ms),
        "high": find_first_id(span.end_ms),
    }


def _find_models(config: Config) -> dict[str, list[str]]:
    """Return the models by their routes."""
    models: dict[str, list[str]] = defaultdict(list)
    for model in config.models.values():
        for one in model.routes:
            models[f"{one.provider}/{one.upstream_model}"].append(model.id)
    return models


def _measure(counts: Counts, find: Callable[[int | str], Iterable[str]]) -> dict[str, Latency]:
    by_name: dict[str, list[LatencyCount]] = defaultdict(list)
    for key, found in counts.items():
        for name in find(key):
            by_name[name] += found
    return {name: measure_latency(found) for name, found in by_name.items()}
