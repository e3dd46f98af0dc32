"""Sums of refusals and of calls to providers that are not written yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.ledger.alert_records import UpstreamFailure

RefusalKey = tuple[int, int | None, str, str]
"""Hour, account id, code, model."""
CallKey = tuple[int, str, str]
"""Slot, provider, upstream model."""


@dataclass(slots=True)
class RefusalSum:
    count: int = 0
    last_ms: int = 0
    last_request_id: str = ""

    def add(self, other: RefusalSum) -> None:
        """Add what came later."""
        self.count += other.count
        self.last_ms, self.last_request_id = other.last_ms, other.last_request_id


@dataclass(slots=True)
class CallSum:
    calls: int = 0
    failures: int = 0
    last: UpstreamFailure | None = None

    def add(self, other: CallSum) -> None:
        """Add what came later."""
        self.calls += other.calls
        self.failures += other.failures
        self.last = other.last or self.last


@dataclass(slots=True)
class Observations:
    """Sums that are not written yet."""

    refusals: dict[RefusalKey, RefusalSum] = field(default_factory=dict)
    calls: dict[CallKey, CallSum] = field(default_factory=dict)
    failures: list[UpstreamFailure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.refusals or self.calls)

    def add(self, later: Observations) -> None:
        for key, refusal in later.refusals.items():
            self.refusals.setdefault(key, RefusalSum()).add(refusal)
        for slot, call in later.calls.items():
            self.calls.setdefault(slot, CallSum()).add(call)
        self.failures += later.failures
