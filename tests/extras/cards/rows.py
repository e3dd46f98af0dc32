"""Rows of orders, for the ledger's tests."""

from __future__ import annotations

from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.records import Fee, Payment, Reversal
from gateway.ledger.sql.books import Books


def add_rows(books: Books) -> None:
    """Make an order of an account of its own, which was paid, had a fee, and was taken back in part."""
    books.accounts.create("payer")
    orders = OrderBook(books)
    order = orders.make("payer", 500, "USD")
    orders.settle(Payment("cs_1", order.id, "paid", 500, "USD", "pi_1"))
    orders.keep_fee(order.id, Fee("txn_1", "payment", 30, "EUR", books.clock()))
    orders.take_back(Reversal("re_1", "refund", "pi_1", None, 20, "USD", stands=True))
