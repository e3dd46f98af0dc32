"""Calls that were made at given times, written by the ledger's own transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from ledger_kit import PRICE, TOKENS

from gateway.ledger.base import Account, Admission, Hold, Key, Outcome, Settlement
from gateway.ledger.batch import MAX_ITEMS, Item, commit_requests
from gateway.ledger.schema import connect
from gateway.times import DAY_MS, HOUR_MS

TODAY = 20_000
"""A day counted from the epoch: 2024-10-04."""
NOON_MS = TODAY * DAY_MS + 12 * HOUR_MS
SUMS = (
    "requests",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "cost_nano",
)
"""What the console sums up of calls."""
_numbers = count(1)


@dataclass(frozen=True)
class Past:
    """One call; `ended_ms` None is one that is pending."""

    key_id: str
    started_ms: int
    ended_ms: int | None
    model: str = "demo/echo"
    cost_nano: int = 77
    outcome: Outcome = "complete"

    def make_id(self) -> str:
        return f"req_{self.started_ms:012x}{next(_numbers):016x}"


def add_calls(path: Path, account_id: int, calls: Iterable[Past]) -> list[str]:
    """Their request ids."""
    made = [(past.make_id(), past) for past in calls]
    with closing(connect(path)) as connection:
        for first in range(0, len(made), MAX_ITEMS):
            items = [
                _make_item(account_id, id_, past) for id_, past in made[first : first + MAX_ITEMS]
            ]
            commit_requests(connection, items, NOON_MS)
    return [id_ for id_, _ in made]


def end_call(path: Path, account_id: int, request_id: str, past: Past) -> None:
    """Settle one that was pending."""
    item = _make_item(account_id, request_id, past)
    with closing(connect(path)) as connection:
        commit_requests(connection, [Item(item.hold, False, item.settlement)], NOON_MS)


def explain(path: Path, sql: str) -> list[str]:
    """The plan of a statement, all of whose values are unknown."""
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return [row[3] for row in rows]


def _make_item(account_id: int, request_id: str, past: Past) -> Item:
    account = Account(account_id, "", suspended=False, balance_nano=0)
    key = Key(past.key_id, account, "", None, None, None, None, None, None, None)
    admission = Admission(
        request_id, past.model, "demo", PRICE, 1000, stream=False, started_ms=past.started_ms
    )
    settlement = None
    if past.ended_ms is not None:
        settlement = Settlement(
            outcome=past.outcome,
            provider="demo",
            attempts=1,
            status=200,
            tokens=TOKENS,
            cost_nano=past.cost_nano if past.outcome == "complete" else 0,
            estimated=False,
            first_byte_ms=12,
            ended_ms=past.ended_ms,
        )
    return Item(Hold(admission, account, key, 1000), insert=True, settlement=settlement)
