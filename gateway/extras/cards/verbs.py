"""The verb `orders`."""

from __future__ import annotations

from typing import get_args

from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, LIMIT, SINCE, choice, verb
from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.records import SOLD_ORDER, OrderState
from gateway.extras.reports.views import show_latest


@verb(
    "orders",
    examples=("orders --state made", "orders --account alice --since 30d"),
    arguments=(
        ACCOUNT,
        choice("--state", get_args(OrderState), "only orders in this state"),
        SINCE,
        LIMIT,
    ),
)
def orders(
    command: Command, account: str | None, state: OrderState | None, since: int | None, limit: int
) -> None:
    books = command.open_books()
    if account is not None:
        books.accounts.find_id(account)
    found = OrderBook(books).read_latest(account, state, limit + 1, since_ms=since or 0)
    show_latest(command, "order", found, SOLD_ORDER, limit)
