"""Write requests with chosen times to the database, through the ledger's own transaction."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gateway.base.money import Price, Tokens
from gateway.base.prices import AppliedPrice
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.ledger.base import Account, Admission, Hold, Key, Line, Settlement
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.queue import MAX_ITEMS, Item, Report
from gateway.ledger.sqlite.batch import KnownValues, commit_requests
from gateway.ledger.sqlite.schema import connect
from tests.ledger.contract.kit import PRICE, TOKENS

TODAY = 20_000
"""A day counted from the epoch: 2024-10-04."""
NOON_MS = TODAY * DAY_MS + 12 * HOUR_MS
SUMS = (
    "requests", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens",
    "cost_nano",
)  # fmt: skip
"""Columns of a request that the console sums up."""
_numbers = count(1)


@dataclass(frozen=True)
class Past:
    """One request; it is pending if `ended_ms` is None."""

    key_id: str
    started_ms: int
    ended_ms: int | None
    model: str = "demo/echo"
    cost_nano: int = 77
    outcome: Outcome = "complete"
    provider: str = "demo"
    status: int = 200
    tokens: Tokens | None = None
    estimated: bool = False
    provider_cost_nano: int | None = None
    reported_cost_nano: int | None = None
    first_byte_ms: int = 12

    def make_id(self) -> str:
        return f"req_{self.started_ms:012x}{next(_numbers):016x}"


def add_calls(path: Path, account_id: int, calls: Iterable[Past]) -> list[str]:
    """Write the requests and return their ids."""
    made = [(past.make_id(), past) for past in calls]
    with closing(connect(path)) as connection:
        for first in range(0, len(made), MAX_ITEMS):
            items = [
                _make_item(account_id, id_, past) for id_, past in made[first : first + MAX_ITEMS]
            ]
            commit_requests(connection, items, NOON_MS, KnownValues(), Report())
    return [id_ for id_, _ in made]


def end_call(path: Path, account_id: int, request_id: str, past: Past) -> None:
    """Settle a pending request."""
    item = _make_item(account_id, request_id, past)
    with closing(connect(path)) as connection:
        commit_requests(
            connection, [Item(item.hold, False, item.settlement)], NOON_MS, KnownValues(), Report()
        )


def _make_item(account_id: int, request_id: str, past: Past) -> Item:
    account = Account(account_id, "", suspended=False, balance_nano=0)
    key = Key(past.key_id, account, KeyTerms(), Line(past.key_id))
    admission = Admission(
        request_id, past.model, past.provider, PRICE, 1000, stream=False, started_ms=past.started_ms
    )
    settlement = None
    if past.ended_ms is not None:
        cost_nano = past.cost_nano if past.outcome in {"complete", "caller_left"} else 0
        settlement = Settlement(
            outcome=past.outcome,
            provider=past.provider,
            attempts=1,
            status=past.status,
            tokens=past.tokens or TOKENS,
            tool_calls={},
            price=AppliedPrice(Price(0, 0, 0, 0, cost_nano)),
            cost_nano=cost_nano,
            estimated=past.estimated,
            first_byte_ms=past.first_byte_ms,
            ended_ms=past.ended_ms,
            withdraw_if_late=False,
            provider_cost_nano=past.provider_cost_nano,
            reported_cost_nano=past.reported_cost_nano,
        )
    return Item(Hold(admission, account, key, 1000), insert=True, settlement=settlement)
