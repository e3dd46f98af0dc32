"""Functions of the ledger's records as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from typing import Any

from gateway.ledger import budget_records, key_records
from gateway.ledger.budget_records import Period, Span
from gateway.ledger.call_records import Outcome
from tests.ledger.contract.kit import settlement


def find_span(period: Period, at_ms: int) -> Span:
    return budget_records.find_span(period, at_ms)


def refuse(limit: str, values: list[Any]) -> list[object]:
    """Return what a refusal by one of the limits says: its words, its kind, the seconds to wait."""
    refusal = getattr(key_records, f"refuse_{limit}")(*values)
    assert refusal.status == 429
    return [refusal.message, refusal.type, refusal.retry_after_seconds]


def is_charged(outcome: Outcome, cost_nano: int) -> bool:
    return settlement(cost_nano, outcome=outcome).is_posted
