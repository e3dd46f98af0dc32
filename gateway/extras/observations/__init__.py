"""Count refusals, calls to providers and how long replies took, beside the books.

Without it the log alone has each failure and refusal, and a refused request has no receipt.

records     refusals, calls to providers, latencies
observer    counts in memory, which are written every few seconds
serving     what is counted of requests, and the latest failures; callers find their refused requests where receipts are
book        the tables, see `tables.sql`: sums are added to, forgotten when old, and read
describing  notes for operators on a request, beside its receipt or instead of one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, LedgerTables, RequestNotes, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.ledger.sql.database import Database


def _start(gateway: Gateway) -> Started:
    from gateway.extras.observations.serving import start

    return start(gateway)


def _describe_call(database: Database, request_id: str) -> RequestNotes:
    from gateway.extras.observations.describing import describe_call

    return describe_call(database, request_id)


def _find_refused(database: Database, request_id: str, account_id: int | None) -> RequestNotes:
    from gateway.extras.observations.describing import find_refused

    return find_refused(database, request_id, account_id)


EXTRA = Extra(
    start=_start,
    ledger=LedgerTables(
        names=("refusals", "refused", "upstream_calls", "latencies", "upstream_failures"),
        describe_call=_describe_call,
        find_refused=_find_refused,
    ),
)
