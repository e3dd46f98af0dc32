"""Records of usage: filters and sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gateway.money import Tokens

UsageGroup = Literal["day", "model", "key", "account"]
ChartUnit = Literal["day", "hour"]


@dataclass(frozen=True, slots=True)
class Spent:
    """Charges of a key or an account for requests that ended in the last UTC days, with today."""

    today_nano: int
    week_nano: int
    """The last 7 days."""
    month_nano: int
    """The last 30 days."""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """A filter by the UTC day of the end, counted from the epoch; both days are inclusive."""

    account_id: int
    first_day: int
    last_day: int
    key_id: str | None = None
    model: str | None = None


class Usage(NamedTuple):
    """A sum of posted requests. It is a tuple because a chart has thousands."""

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0

    @property
    def tokens(self) -> Tokens:
        return Tokens(*self[1:5])


def sum_costs(costs: Iterable[ProviderCosts]) -> ProviderCosts:
    return ProviderCosts(*map(sum, zip(ProviderCosts(), *costs, strict=True)))


def sum_usage(usages: Iterable[Usage]) -> Usage:
    return Usage(*map(sum, zip(*usages, strict=True)))


class ProviderCosts(NamedTuple):
    """A sum of what providers bill for charged requests; only operators may see it."""

    known: int = 0
    """Requests whose cost is known: one was configured."""
    charged_nano: int = 0
    """The sum that these requests were charged."""
    cost_nano: int = 0
    reported: int = 0
    """Requests whose provider said what it charged."""
    reported_nano: int = 0
    compared: int = 0
    """Requests whose cost is known and was reported."""
    difference_nano: int = 0
    """The excess of what was reported over what was computed."""

    @property
    def margin_nano(self) -> int:
        return self.charged_nano - self.cost_nano


class UsagePoint(NamedTuple):
    """The sum of one model in one day or hour, counted from the epoch."""

    at: int
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class KeyLabel:
    id: str
    name: str
    display: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Sums read from one state of the ledger, so that they agree with each other."""

    points: tuple[UsagePoint, ...]
    """Days or hours with calls, the oldest first."""
    keys: tuple[tuple[KeyLabel, Usage], ...]
    """The most expensive first; empty unless asked for by key."""
    models: tuple[str, ...]
    """All models that were used, whichever model was asked for."""


@dataclass(frozen=True, slots=True)
class OverviewView:
    days: dict[int, Usage]
    """Days with calls."""
    active_keys: int
    has_key: bool
    """True also if all its keys are revoked or expired."""
    has_call: bool
    """True if a call was ever charged."""
    expiring: tuple[tuple[KeyLabel, int], ...]
    """Working keys that expire soon, with the time in Unix milliseconds; the earliest first."""
