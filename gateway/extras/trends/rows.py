"""Trends computed from the rows of calls: exact, for any filters, as long as the calls are not too many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.base.ids import find_first_id
from gateway.extras.observations.records import Latency
from gateway.extras.reports.filters import IN_RANGE, INDEXES, choose_index
from gateway.extras.reports.records import CallFilter
from gateway.extras.trends.records import (
    DIMENSIONS,
    Span,
    Step,
    Trends,
    Who,
    count_failing,
    find_slower,
)
from gateway.ledger.sql.database import Part, Value

MAX_CALLS: Final = 40_000
"""The most calls that are read, in the span and the one before: each takes the books' thread some µs."""
_COLUMNS: Final = (
    *("started_ms", "first_byte_ms", "total_ms", "failure"),
    *("account_id", "provider", "model"),
)
_CALLS: Final = f"""
    WITH found ({", ".join(_COLUMNS)}) AS (
        SELECT started_ms, first_byte_ms, ended_ms - started_ms,
            CASE WHEN outcome = 'complete' THEN ''
            ELSE outcome || coalesce(' ' || CAST(status AS TEXT), '') END,
            requests.account_id, requests.provider, requests.model
        FROM {{source}} WHERE {{chosen}} AND requests.state <> 'pending'
    )
    SELECT json_array({", ".join(f"json_group_array({name})" for name in _COLUMNS)}) FROM found
"""  # noqa: S608 - of constants
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {chosen} LIMIT :limit) AS found"

Call = tuple[int, int | None, int, str, int, str, str]
"""The values of `_COLUMNS`."""


class RowBook(Part):
    def read(self, chosen: CallFilter, span: Span) -> list[Call] | None:
        """Return the calls that began in a span and ended; None if they are too many."""
        index = choose_index(chosen)
        source, first, id_ = INDEXES[index]
        # Only a filter that the index lacks, so that counting does not read the rows themselves.
        other = (
            "AND requests.provider = :provider" if chosen.provider and index != "provider" else ""
        )
        parts = {"source": source, "chosen": f"{first} {IN_RANGE.format(id=id_)} {other}"}
        values: dict[str, Value] = {
            "account": chosen.account_id,
            "provider": chosen.provider,
            "model": chosen.model,
            "key": None,
            "low": find_first_id(span.first_ms),
            "high": find_first_id(span.end_ms),
            "limit": MAX_CALLS + 1,
        }
        if self._database.read_number(_COUNT.format(**parts), values) > MAX_CALLS:
            return None
        return list(zip(*self._database.read_columns(_CALLS.format(**parts), values), strict=True))


@dataclass(slots=True)
class _Times:
    """The times of complete replies, and the failures beside them."""

    firsts_ms: list[int | None] = field(default_factory=list)
    totals_ms: list[int] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, first_ms: int | None, total_ms: int, failure: str) -> None:
        if failure:
            self.failures[failure] += 1
        else:
            self.firsts_ms.append(first_ms)
            self.totals_ms.append(total_ms)

    def measure(self) -> Latency:
        firsts = sorted(one for one in self.firsts_ms if one is not None)
        percentiles = [
            _find_percentile(each, part)
            for each in (firsts, sorted(self.totals_ms))
            for part in (50, 95)
        ]
        return Latency(len(self.totals_ms), *percentiles)


def _find_percentile(ordered: Sequence[int], percent: int) -> int | None:
    """Return the least of the times that this percentage did not exceed."""
    if not ordered:
        return None
    return max(ordered[-(-len(ordered) * percent // 100) - 1], 0)  # a clock may have been set back


def _unite(parts: Iterable[_Times]) -> _Times:
    whole = _Times()
    for one in parts:
        whole.firsts_ms += one.firsts_ms
        whole.totals_ms += one.totals_ms
        whole.failures += one.failures
    return whole


def compute(calls: Iterable[Call], span: Span, names: Mapping[int, str]) -> Trends:
    """Compute the trends of a span from its calls and those of the span before."""
    steps: dict[int, _Times] = defaultdict(_Times)
    now, before = (defaultdict[Who, _Times](_Times) for _ in range(2))
    for started_ms, first_ms, total_ms, failure, account, provider, model in calls:
        who = account, provider, model
        if started_ms < span.first_ms:
            before[who].add(first_ms, total_ms, failure)
        else:
            at = (started_ms - span.first_ms) // span.step_ms
            steps[at].add(first_ms, total_ms, failure)
            now[who].add(first_ms, total_ms, failure)
    return Trends(
        span,
        is_exact=True,
        steps=[_make_step(span.first_ms + at * span.step_ms, steps[at]) for at in sorted(steps)],
        total=_make_step(span.first_ms, _unite(now.values())),
        before=_make_step(span.before.first_ms, _unite(before.values())),
        slower={
            one: find_slower(*(_measure(each, at, names) for each in (now, before)))
            for at, one in enumerate(DIMENSIONS)
        },
        failing=count_failing(((who, times.failures) for who, times in now.items()), names),
    )


def _make_step(at_ms: int, times: _Times) -> Step:
    return Step(at_ms, times.measure(), times.failures)


def _measure(parts: Mapping[Who, _Times], at: int, names: Mapping[int, str]) -> dict[str, Latency]:
    """Measure the times of each account, provider or model: the part of `Who` at a place."""
    groups: dict[int | str, list[_Times]] = defaultdict(list)
    for who, times in parts.items():
        groups[who[at]].append(times)
    return {
        names[name] if isinstance(name, int) else name: _unite(each).measure()
        for name, each in groups.items()
    }
