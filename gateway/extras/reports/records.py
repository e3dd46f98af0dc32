"""Records of reports: lists of calls, sums of usage, statements of a period."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Literal, NamedTuple

from gateway.base import money
from gateway.extras.observations.records import KeyLabel
from gateway.ledger.call_records import Outcome

OutcomeFilter = Outcome | Literal["failed"]
"""An outcome, or all but `pending` and `complete`."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """A filter for calls. Fields that are None do not filter."""

    account_id: int | None = None
    request_id: str | None = None
    key_id: str | None = None
    model: str | None = None
    provider: str | None = None
    outcome: OutcomeFilter | None = None
    status: int | None = None
    slower_than_ms: int | None = None
    """Calls that took longer. Interrupted calls never match: they ended at the next start."""
    since_ms: int | None = None
    """The earliest time at which a call began."""
    until_ms: int | None = None
    """The end; it is exclusive."""


@dataclass(frozen=True, slots=True)
class CallView:
    """One request and its end, without prompt and completion; a call in the console's JSON."""

    request_id: str
    account: str
    started_ms: int
    ended_ms: int | None
    model: str
    provider: str
    """The provider that served it or is serving it."""
    key_id: str
    key_name: str
    key_display: str
    state: Literal["pending", "posted", "voided"]
    outcome: Outcome
    status: int | None
    stream: bool
    tokens: money.Tokens
    cost_nano: int
    estimated: bool
    first_byte_ms: int | None
    """Time from the request's arrival to the caller's first byte."""

    @property
    def total_ms(self) -> int | None:
        """Return None while it is pending; 0 if the clock was set back meanwhile."""
        return None if self.ended_ms is None else max(self.ended_ms - self.started_ms, 0)


UsageGroup = Literal["day", "model", "key", "account", "provider"]
ChartUnit = Literal["day", "hour"]


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """A filter by the UTC day of the end, counted from the epoch; both days are inclusive."""

    account_id: int | None
    """None for all accounts."""
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
    def tokens(self) -> money.Tokens:
        return money.Tokens(*self[1:5])


def sum_costs(costs: Iterable[ProviderCosts]) -> ProviderCosts:
    return ProviderCosts(*map(sum, zip(ProviderCosts(), *costs, strict=True)))


def sum_usage(usages: Iterable[Usage]) -> Usage:
    return Usage(*map(sum, zip(*usages, strict=True)))


class ProviderCosts(NamedTuple):
    """Sums of providers' bills for charged requests; only operators may see them."""

    known: int = 0
    """Requests with a known provider cost: prices for it were configured."""
    charged_nano: int = 0
    """The charges of these requests."""
    provider_cost_nano: int = 0
    reported: int = 0
    """Requests whose provider reported its charge."""
    reported_nano: int = 0
    compared: int = 0
    """Requests whose cost is both computed and reported."""
    difference_nano: int = 0
    """The excess of the reported over the computed costs."""

    @property
    def margin_nano(self) -> int:
        return self.charged_nano - self.provider_cost_nano


class UsagePoint(NamedTuple):
    """The sum of one model in one day or hour, counted from the epoch."""

    at: int
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Sums read from one state of the ledger, so that they agree with each other."""

    points: tuple[UsagePoint, ...]
    """Days or hours with calls, the oldest first."""
    keys: tuple[tuple[KeyLabel, Usage], ...]
    """The most expensive first; empty unless sums by key were requested."""
    models: tuple[str, ...]
    """All models used, whether or not a model is selected."""


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


@dataclass(frozen=True, slots=True)
class GatewayView:
    """Balances, failures and credits of all accounts together; days are counted from the epoch."""

    failed: dict[int, int]
    """Requests that ended without a charge, by day."""
    credited_nano: dict[int, int]
    """Credit that was sold or given, by day: credits of operators and codes."""
    moved_nano: dict[int, int]
    """The same and corrections: all movements of balances besides charges."""
    owed_nano: int
    """The sum of positive balances."""
    overdrawn_nano: int
    """The sum of negative balances, as a positive amount."""

    def find_balances(self, charged_nano: Mapping[int, int], days: range) -> dict[int, int]:
        """Return the sum of all balances at the end of each of the latest days, up to now."""
        balances, nano = {}, self.owed_nano - self.overdrawn_nano
        for day in reversed(days):
            balances[day] = nano
            nano += charged_nano.get(day, 0) - self.moved_nano.get(day, 0)
        return balances


@dataclass(frozen=True, slots=True)
class StatementLine:
    """An account's movements in a period: opening balance plus movements is the closing balance."""

    account: str
    opening_nano: int
    credit_nano: int
    codes_nano: int
    cards_nano: int
    charges_nano: int
    """Negative, as it is a movement."""
    corrections_nano: int

    @property
    def amounts_nano(self) -> tuple[int, ...]:
        """Return the opening balance and the movements."""
        return astuple(self)[1:]

    @property
    def closing_nano(self) -> int:
        return sum(self.amounts_nano)


def sum_statement(lines: Iterable[StatementLine]) -> StatementLine:
    """Return the total of all accounts."""
    amounts = [one.amounts_nano for one in lines]
    return StatementLine("total", *map(sum, zip((0,) * 6, *amounts, strict=True)))
