"""Count refusals, calls to providers and how long replies took, beside the books.

Without it the log alone has each failure and refusal, and a refused request has no receipt.

records     refusals, calls to providers, latencies
observer    counts in memory, which are written every few seconds
serving     what is counted of requests, the latest failures, and refused requests for callers
book        the tables, see `tables.sql`: sums are added to, forgotten when old, and read
describing  failed attempts and refused requests in words
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, LedgerTables, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _start(gateway: Gateway) -> Started:
    from gateway.extras.observations.serving import start

    return start(gateway)


EXTRA = Extra(
    start=_start,
    ledger=LedgerTables(
        names=("refusals", "refused", "upstream_calls", "latencies", "upstream_failures")
    ),
)
