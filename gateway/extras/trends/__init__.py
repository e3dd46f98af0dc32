"""Latency and failures over time: the page Trends of the console, and its routes.

Without it the ledger keeps the same data, and pages show the present hour and whole days only.

    records  spans of time, steps, and groups that became slower
    rows     computed from the rows of calls: exact, by the minute
    sums     computed from the sums by hour, where the calls are too many
    book     reads both, and chooses; trends.sql has the statements
    console  where the console is: the routes, the fields of JSON and CSV
    static   the page
"""

from __future__ import annotations

from gateway.extension import Extra


def _add_to_console() -> object:
    from gateway.extras.trends.console import ADDITION

    return ADDITION


EXTRA = Extra(needs=("observations", "operations", "reports"), adds_to={"console": _add_to_console})
