"""Functions of the ledger's records as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Any

from gateway.base.errors import GatewayError
from gateway.ledger import budget_records, key_records
from gateway.ledger.budget_records import Period, Span
from gateway.ledger.call_records import Outcome
from gateway.ledger.serving.memory import Memory, take_hold
from gateway.ledger.sqlite import files
from tests.ledger.contract.kit import admission, settlement
from tests.ledger.serving.test_memory import find, make_snapshot


def find_span(period: Period, at_ms: int) -> Span:
    return budget_records.find_span(period, at_ms)


def refuse(limit: str, values: list[Any]) -> list[object]:
    """Return what a refusal by one of the limits says: its words, its kind, the seconds to wait."""
    refusal = getattr(key_records, f"refuse_{limit}")(*values)
    assert refusal.status == 429
    return [refusal.message, refusal.type, refusal.retry_after_seconds]


def is_charged(outcome: Outcome, cost_nano: int) -> bool:
    return settlement(cost_nano, outcome=outcome).is_posted


def take(balance_nano: int, spent_nano: int, held_nano: int) -> str:
    """Hold money on a key with a cap of 5000, and tell what refused it; then nothing more is held."""
    memory = Memory(lambda: 0)
    memory.apply(make_snapshot(balance_nano))
    key = find(memory)
    key.line.spent_nano = spent_nano
    key.line.held_nano = key.account.held_nano = held_nano
    try:
        take_hold(key, admission(10**9))
    except GatewayError as error:
        assert key.held_nano == key.account.held_nano == held_nano
        return type(error).__name__
    assert key.held_nano == key.account.held_nano == held_nano + 10**9
    return "held"


def explain(error: str, code: str = "") -> str:
    """Tell the words for an error of SQLite, of the system, or of a driver that is used wrongly."""
    made: sqlite3.Error | OSError = sqlite3.ProgrammingError("its words")
    if error == "OSError":
        made = OSError(getattr(errno, code), "its words") if code else OSError("its words")
    elif code:
        made = sqlite3.OperationalError("its words")
        made.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{code}")
    return str(files.explain(Path("/srv/gateway.db"), made)).removeprefix("/srv/gateway.db: ")
