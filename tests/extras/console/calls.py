"""Write requests with chosen times to the database, through the ledger's own transaction."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.base.money import Tokens
from gateway.base.times import DAY_MS, HOUR_MS
from gateway.ledger.call_records import Outcome
from gateway.ledger.serving.queue import MAX_ITEMS, Item
from gateway.ledger.sqlite.schema import connect
from tests.ledger.contract.kit import TOKENS, settlement
from tests.ledger.sql.requests import add_requests, make_item

TODAY = 20_000
"""A day counted from the epoch: 2024-10-04."""
NOON_MS = TODAY * DAY_MS + 12 * HOUR_MS


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


def add_calls(path: Path, account_id: int, calls: Iterable[Past]) -> list[str]:
    """Write the requests and return their ids."""
    items = [_make_item(account_id, past) for past in calls]
    with closing(connect(path)) as connection:
        for first in range(0, len(items), MAX_ITEMS):
            add_requests(connection, items[first : first + MAX_ITEMS], NOON_MS)
    return [item.request_id for item in items]


def end_call(path: Path, account_id: int, request_id: str, past: Past) -> None:
    """Settle a pending request."""
    item = _make_item(account_id, past)
    item.hold.admission.request_id, item.insert = request_id, False
    with closing(connect(path)) as connection:
        add_requests(connection, [item], NOON_MS)


def _make_item(account_id: int, past: Past) -> Item:
    item = make_item(account_id, past.key_id, past.started_ms)
    asked = item.hold.admission
    asked.model, asked.provider = past.model, past.provider
    if past.ended_ms is not None:
        cost_nano = past.cost_nano if past.outcome in {"complete", "caller_left"} else 0
        made = settlement(
            cost_nano,
            outcome=past.outcome,
            ended_ms=past.ended_ms,
            provider_cost_nano=past.provider_cost_nano,
            reported_cost_nano=past.reported_cost_nano,
            tokens=past.tokens or TOKENS,
        )
        item.settlement = replace(
            made,
            provider=past.provider,
            attempts=1,
            status=past.status,
            estimated=past.estimated,
            first_byte_ms=past.first_byte_ms,
        )
    return item
