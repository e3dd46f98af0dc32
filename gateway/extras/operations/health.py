"""How providers answer, how long replies take, and what was refused, as operators see it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.admin.fields import Fields, describe
from gateway.base.times import HOUR_MS, HOURS_PER_DAY
from gateway.config.records import Config
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.describing import FAILURE
from gateway.extras.observations.records import (
    CallSums,
    Latency,
    LatencyCount,
    LatencyScope,
    RefusalView,
    RefusedView,
    UpstreamFailure,
    UpstreamView,
    measure_latency,
)
from gateway.ledger.sql.books import Books

ALARMING: Final = 3
"""The fewest failures to call a provider failing, and to raise an alert: one or two prove nothing."""
LATEST: Final = 20
"""Rows in lists of the latest, such as refused requests: they fit on a screen."""
_LATEST: Final = "in its latest ten minutes"
"""Words for the time span of the rule, which is the latest slot with calls."""

State = Literal["off", "probing", "resting", "not_asked", "failing", "working"]


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that only the server knows of: a breaker's probe is in flight, or nothing is sent."""

    state: Literal["probing", "resting"]
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """How a provider answers for one of its models, or for all of them together."""

    state: State
    words: str
    hour: CallSums
    today: CallSums
    failure: UpstreamFailure | None


def list_upstream(books: Books, config: Config) -> list[UpstreamView]:
    """Return each provider's models that some route names, in the order of the configuration."""
    seen = {
        (one.provider, one.upstream_model): one for one in ObservationBook(books).read_upstream()
    }
    return [
        seen.get((provider.name, model)) or UpstreamView(provider.name, model)
        for provider in config.providers.values()
        for model in config.upstream_models_of(provider)
    ]


def judge(
    seen: Collection[UpstreamView], pause: Pause | None = None, *, is_off: bool = False
) -> UpstreamState:
    """Judge a provider by the calls to one of its models, or to all.

    `pause` and `is_off` are known only in the process that serves: it has the breakers, and the variables
    and credentials with the keys.
    """
    latest, hour = _sum(one.latest for one in seen), _sum(one.hour for one in seen)
    today = _sum(one.today for one in seen)
    failures = [one.failure for one in seen if one.failure is not None]
    state, words = _find_state(latest, pause, is_off=is_off)
    failing = sum(_find_failures(one.latest, one.hour) is not None for one in seen)
    if state == "working" and (figures := _find_failures(latest, hour)):
        state, words = "failing", f"failing ({figures})"
    elif state == "working" and failing:  # working models must not hide failing ones
        state, words = "failing", f"failing for {failing} of {len(seen)} models"
    last = max(failures, key=lambda one: one.at_ms, default=None)
    return UpstreamState(state, words, hour, today, last)


def find_alarm(seen: Collection[UpstreamView]) -> str | None:
    """Describe a failure that is worth an alert, of all of a provider's models or of one; else None."""
    spans = [(one.latest, one.hour, f" for model {one.upstream_model}") for one in seen]
    latest, hour = _sum(one.latest for one in seen), _sum(one.hour for one in seen)
    for last, hourly, model in ((latest, hour, ""), *spans):
        if figures := _find_failures(last, hourly):
            return f"failing{model} ({figures})"
    return None


def describe_upstream(state: UpstreamState) -> dict[str, object]:
    """Return the members for JSON."""
    failure = state.failure
    return {
        "state": state.state,
        "state_text": state.words,
        "hour": describe(state.hour, "calls", "failures"),
        "today": describe(state.today, "calls", "failures"),
        "last_failure": None if failure is None else FAILURE.describe(failure),
    }


LATENCY: Final = Fields[Latency](
    *("calls", "first_byte_p50_ms", "first_byte_p95_ms", "total_p50_ms", "total_p95_ms")
)
REFUSAL: Final = Fields[RefusalView](
    *("account", "code", "model", "count", "last_ms", "last_request_id"),
    table=(
        "last_ms",
        ("ACCOUNT", lambda one: "unknown key" if one.account is None else one.account),
        *("code", "model"),
        ("REQUESTS", "count"),
        ("LAST REQUEST", "last_request_id"),
    ),
)


def list_refusals(books: Books, account: str | None, since_ms: int) -> list[RefusalView]:
    """Return the refusals of an account, or of everybody, the latest first. Raises NotFound."""
    account_id = None if account is None else books.accounts.find_id(account)
    return ObservationBook(books).read_refusals(account_id, since_ms)


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """How long the complete replies of a provider's model, or of an account, took."""

    name: tuple[str, ...] = ()
    hour: Latency = field(default_factory=Latency)
    """Counts of the current clock hour and the one before, because counts are kept by the hour."""
    day: Latency = field(default_factory=Latency)


def list_latencies(
    books: Books, scope: LatencyScope, day: int | None = None, account_id: int | None = None
) -> tuple[list[LatencyRow], LatencyRow]:
    """Return how long replies took in the last two clock hours and on a UTC day, by default today.

    The result is a row for each name, and a row for all together.
    """
    hour = books.clock() // HOUR_MS
    first = hour // HOURS_PER_DAY * HOURS_PER_DAY if day is None else day * HOURS_PER_DAY
    with books.snapshot():
        spans = [
            ObservationBook(books).read_latencies(scope, *span, account_id)
            for span in ((hour - 1, hour + 1), (first, first + HOURS_PER_DAY))
        ]
    by_name: dict[tuple[str, ...], list[list[LatencyCount]]] = defaultdict(lambda: [[], []])
    for place, span in enumerate(spans):
        for one in span:
            by_name[one.name][place].append(one)
    rows = [LatencyRow(name, *map(measure_latency, both)) for name, both in sorted(by_name.items())]
    return rows, LatencyRow((), *map(measure_latency, spans))


def describe_latencies(row: LatencyRow) -> dict[str, object]:
    """Return the members for JSON, without the name."""
    return {"hour": LATENCY.describe(row.hour), "day": LATENCY.describe(row.day)}


def list_refused(books: Books, account: str | None, since_ms: int) -> list[RefusedView]:
    """Return the latest refused requests of an account, or of everybody. Raises NotFound."""
    account_id = None if account is None else books.accounts.find_id(account)
    return ObservationBook(books).read_refused(account_id, since_ms, LATEST)


def _sum(sums: Iterable[CallSums]) -> CallSums:
    each = list(sums)
    return CallSums(sum(one.calls for one in each), sum(one.failures for one in each))


def _find_state(latest: CallSums, pause: Pause | None, *, is_off: bool) -> tuple[State, str]:
    """Return the state and its words."""
    if is_off:
        return "off", "off"
    if pause is not None:
        for_seconds = f" for {pause.seconds} s" if pause.seconds else ""
        words = "being tried" if pause.state == "probing" else f"resting{for_seconds}"
        return pause.state, words
    if latest.calls == 0:
        return "not_asked", "not asked yet"
    failed = f" ({latest.failures} of {latest.calls} failed {_LATEST})" if latest.failures else ""
    return "working", f"working{failed}"


def has_failed_often(latest: CallSums) -> bool:
    """Return whether at least half of the latest calls failed, however few they are."""
    return 0 < latest.calls <= latest.failures * 2


def _find_failures(latest: CallSums, hour: CallSums) -> str | None:
    """Return the figures if half of the latest calls failed, or all calls of the hour, at least three.

    One failure proves nothing.
    """
    if has_failed_often(latest) and latest.failures >= ALARMING:
        return f"{latest.failures} of {latest.calls} {_LATEST}"
    if hour.failures == hour.calls >= ALARMING:
        return f"all {hour.calls} in the last hour"
    return None
