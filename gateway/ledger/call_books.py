"""The part of the books' contract about requests to models: calls, and sums of their usage."""

from __future__ import annotations

from typing import Protocol

from gateway.ledger.call_records import CallDetail, CallFilter, CallView
from gateway.ledger.usage_records import (
    ChartUnit,
    OverviewView,
    ProviderCosts,
    Usage,
    UsageFilter,
    UsageGroup,
    UsageReport,
)


class Calls(Protocol):
    def read_page(self, chosen: CallFilter, below_id: str | None, limit: int) -> list[CallView]:
        """Return the latest calls below an id, including pending ones."""

    def count(self, chosen: CallFilter) -> int | None:
        """Return how many calls are chosen; None if they are many and no sums tell their number."""

    def read_detail(self, request_id: str, *, account_id: int | None = None) -> CallDetail:
        """Return a request with its receipt. Those of other accounts are treated as unknown."""

    def measure_pending(self) -> tuple[int, int]:
        """Return how many requests are pending, and what they hold in nano-units."""


class UsageSums(Protocol):
    def sum_by(
        self, by: UsageGroup, *, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> list[tuple[str, Usage]]:
        """Sum the posted requests that ended in [since, until); accounts by cost, else by group."""

    def sum_costs(
        self, by: UsageGroup, *, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> dict[str, ProviderCosts]:
        """Sum what providers bill for these requests, in groups of which anything is known."""

    def report(self, chosen: UsageFilter, unit: ChartUnit, *, by_key: bool = False) -> UsageReport:
        """Sum the chosen requests by day or hour and, if asked for, by key."""

    def read_overview(self, account_id: int, *, first_day: int, soon_ms: int) -> OverviewView:
        """Return the days since `first_day`, and the keys that expire within `soon_ms`."""

    def sum_by_key(self, account_id: int, first_day: int, last_day: int) -> dict[str, int]:
        """Return what each key was charged in nano-units; both days are inclusive."""
