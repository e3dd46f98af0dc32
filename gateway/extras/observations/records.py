"""Records kept beside the books: refusals, calls to providers, latencies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import isqrt
from typing import Final, Literal

from gateway.base.ids import display

SLOT_MS: Final = 600_000
"""Calls to providers are summed by ten minutes, so that "the last hour" means 50 to 60 minutes."""


@dataclass(frozen=True, slots=True)
class KeyLabel:
    id: str
    name: str
    display: str


def label_key(key_id: str, name: str, last4: str) -> KeyLabel:
    return KeyLabel(key_id, name, display(last4, key_id))


@dataclass(frozen=True, slots=True)
class UpstreamFailure:
    """A provider's failure, or its rejection of a request: never its text, which may quote what was asked."""

    at_ms: int
    request_id: str
    status: int | None
    """The status of the provider's reply; None if there was none."""
    reason: str
    url: str
    """The whole address, without secrets; "" for the built-in provider."""
    type: str = ""
    """The provider's own name for its error, with `code` and `param`; "" if it gave none."""
    code: str = ""
    param: str = ""
    rejected: bool = False
    """True if the provider rejected the request as faulty, which is no failure of the provider."""


@dataclass(frozen=True, slots=True)
class RefusalView:
    """Refused requests of one account with one code for one model."""

    account: str | None
    """None if the key is unknown."""
    code: str
    model: str
    """"" if no configured model was named by then."""
    count: int
    last_ms: int
    last_request_id: str


@dataclass(frozen=True, slots=True)
class RefusedView:
    """A request that the gateway refused itself."""

    request_id: str
    account: str
    at_ms: int
    code: str
    model: str
    """The model that it named, whether that exists or not; "" if it had named none by then."""
    key: KeyLabel | None = None
    """None if the key is not known any more."""
    models: tuple[str, ...] | None = None
    """The models that the key may use now, if its account or itself has a list of them."""
    ended_ms: int | None = None
    """The time at which the key was revoked, or at which it expires."""


@dataclass(frozen=True, slots=True)
class RefusedSum:
    """How many of the requests that are kept were refused to a key, with one code for one model."""

    code: str
    model: str
    key: KeyLabel
    count: int


@dataclass(frozen=True, slots=True)
class CallSums:
    calls: int = 0
    failures: int = 0

    def __str__(self) -> str:
        return f"{self.calls}, {self.failures} failed" if self.failures else str(self.calls)


@dataclass(frozen=True, slots=True)
class UpstreamView:
    """How a provider answered for one of its models."""

    provider: str
    upstream_model: str
    hour: CallSums = field(default_factory=CallSums)
    """The last 50 to 60 minutes."""
    today: CallSums = field(default_factory=CallSums)
    """The UTC day."""
    latest: CallSums = field(default_factory=CallSums)
    """The latest ten minutes in which it was asked."""
    failure: UpstreamFailure | None = None
    """The latest failure that is kept."""


EDGES_MS: Final = tuple((isqrt(400 << power) + 1) // 2 for power in range(35))
"""The longest time of each bucket: powers of the root of 2, from 10 ms to 22 min. Longer times are in a
last bucket without an end."""

LatencyScope = Literal["route", "account", "day"]
"""The groups that latencies are summed by: a provider's model and the hour, an account's hour, the day."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How long complete replies took, from the request's arrival; None if there was none."""

    calls: int = 0
    first_byte_p50_ms: int | None = None
    first_byte_p95_ms: int | None = None
    total_p50_ms: int | None = None
    total_p95_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LatencyCount:
    """How many replies of a scope had their first byte, and their end, within a bucket."""

    name: tuple[str, ...]
    """Provider and its model; the account; nothing for the day."""
    bucket: int
    firsts: int
    totals: int


def measure_latency(counts: Iterable[LatencyCount]) -> Latency:
    """Compute the percentiles of all counts together."""
    firsts, totals = ([0] * (len(EDGES_MS) + 1) for _ in range(2))
    for one in counts:
        firsts[one.bucket] += one.firsts
        totals[one.bucket] += one.totals
    return Latency(
        sum(totals),
        *(_find_percentile_ms(each, part) for each in (firsts, totals) for part in (50, 95)),
    )


def _find_percentile_ms(counts: list[int], percent: int) -> int | None:
    """Return about the least of the times that this percentage did not exceed; None if nothing was counted.

    The times of a bucket are taken to be spread evenly over it, each in the middle of its share. So a single
    reply has the same time in all percentiles, and that is not the bucket's end, which would make few replies
    seem slower than they were.
    """
    rank = -(-sum(counts) * percent // 100)
    if not rank:
        return None
    for count, (low_ms, high_ms) in zip(counts, pairwise((0, *EDGES_MS)), strict=False):
        if rank <= count:
            return low_ms + ((high_ms - low_ms) * (2 * rank - 1) + count) // (2 * count)
        rank -= count
    return EDGES_MS[-1]  # longer: nobody knows how much
