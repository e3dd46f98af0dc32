"""Operators: what providers bill for the models of all accounts, beside what these were charged."""

from __future__ import annotations

from typing import Final

from gateway.admin import accounts, views
from gateway.console.api.usage import MAX_DAYS, read_days
from gateway.console.state import READERS, Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.call_records import ProviderCosts, Usage, sum_costs, sum_usage
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount
from gateway.times import DAY_MS, format_day


def show_costs(books: Books, request: ConsoleRequest) -> Answer:
    """List all models that were used, those that earn least first; unknown costs last."""
    first, last = read_days(request.query, books.clock() // DAY_MS, MAX_DAYS["model"], "model")
    rows = accounts.usage_with_costs(
        books, by="model", since_ms=first * DAY_MS, until_ms=(last + 1) * DAY_MS
    )
    rows.sort(key=lambda row: (not row[2].known, row[2].margin_nano, row[0]))
    total = sum_usage(usage for _, usage, _ in rows) if rows else Usage()
    body = {
        "from": format_day(first),
        "to": format_day(last),
        "currency": request.gateway.config.billing.currency,
        "rows": [{"model": model, **_describe(usage, costs)} for model, usage, costs in rows],
        "totals": _describe(total, sum_costs(costs for *_, costs in rows)),
    }
    return Answer(body)


def _describe(usage: Usage, costs: ProviderCosts) -> dict[str, object]:
    return {
        "requests": usage.requests,
        **describe_amount("charged", usage.cost_nano),
        **views.COSTS.describe(costs),
    }


ROUTES: Final = (
    Route("GET", "/console/api/costs", "operator", in_books_thread(show_costs), READERS),
)
