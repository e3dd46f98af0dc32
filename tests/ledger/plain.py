"""Functions of the ledger's records as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Any

from gateway.base.errors import NoFunds
from gateway.ledger import budget_records, key_records
from gateway.ledger.base import Key
from gateway.ledger.budget_records import Period, Span
from gateway.ledger.call_records import Outcome
from gateway.ledger.serving.memory import Memory, take_hold
from gateway.ledger.sqlite import faults
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
    answers = {take_amount(key, amount_nano) for amount_nano in (1, 10**9)}
    assert len(answers) == 1, "how much is asked for makes no difference"
    return answers.pop()


def take_amount(key: Key, amount_nano: int) -> str:
    """Hold an amount, tell the outcome, and put back what is held."""
    held_nano, answer = key.held_nano, "held"
    try:
        take_hold(key, admission(amount_nano))
    except NoFunds as error:
        answer, amount_nano = error.lack, 0
    assert key.held_nano == key.account.held_nano == held_nano + amount_nano
    key.line.held_nano = key.account.held_nano = held_nano
    return answer


def explain(error: str, code: str = "") -> str:
    """Tell the words for an error of SQLite, of the system, or of a driver that is used wrongly."""
    made: sqlite3.Error | OSError = sqlite3.ProgrammingError("its words")
    if error == "OSError":
        made = OSError(getattr(errno, code), "its words") if code else OSError("its words")
    elif code:
        made = sqlite3.OperationalError("its words")
        made.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{code}")
    path, told, words = str(faults.explain(Path("/srv/gateway.db"), made)).partition(": ")
    assert (path, told) == ("/srv/gateway.db", ": ")
    return words
