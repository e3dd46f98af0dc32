"""Sums by day of what providers bill, written in the transaction that ends the requests.

Only requests whose cost is known, or was reported, have a part in them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from operator import add
from typing import Final

from gateway.ledger.base import Hold, Settlement
from gateway.ledger.call_records import ProviderCosts
from gateway.ledger.sqlite.rows import Statement, run_rows
from gateway.times import DAY_MS

_ADD: Final = Statement(
    "INSERT INTO daily_costs SELECT * FROM",
    "WHERE column1 NOT NULL ON CONFLICT (account_id, day, model, key_id) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in ProviderCosts._fields),
)


def add_costs(connection: sqlite3.Connection, charges: Iterable[tuple[Hold, Settlement]]) -> None:
    """Add charged requests, inside the transaction that settles them."""
    sums: dict[tuple[int, int, str, str], ProviderCosts] = {}
    for hold, settlement in charges:
        if settlement.provider_cost_nano is None and settlement.reported_cost_nano is None:
            continue
        day = settlement.ended_ms // DAY_MS
        place = (hold.account.id, day, hold.admission.model, hold.key.id)
        one = count_costs(settlement)
        sums[place] = ProviderCosts(*map(add, sums[place], one)) if place in sums else one
    run_rows(connection, _ADD, [(*place, *costs) for place, costs in sums.items()])


def count_costs(settlement: Settlement) -> ProviderCosts:
    """Return the sums of one charged request."""
    cost_nano, reported_nano = settlement.provider_cost_nano, settlement.reported_cost_nano
    is_known, is_reported = cost_nano is not None, reported_nano is not None
    compared = is_known and is_reported
    cost_nano, reported_nano = cost_nano or 0, reported_nano or 0
    return ProviderCosts(
        known=int(is_known),
        charged_nano=settlement.cost_nano if is_known else 0,
        cost_nano=cost_nano,
        reported=int(is_reported),
        reported_nano=reported_nano,
        compared=int(compared),
        difference_nano=reported_nano - cost_nano if compared else 0,
    )
