"""Orders in the books of each database; `books/` has sessions with them."""

from __future__ import annotations

import pytest

from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.records import Payment
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books


def test_orders_are_kept_as_they_were_made(books: Books) -> None:
    order = OrderBook(books).make("a", 500, "USD")
    OrderBook(books).settle(Payment("cs_1", order.id, "paid", 500, "USD", "pi_1"))
    for sql in (
        "UPDATE orders SET amount_nano = 9",
        "UPDATE orders SET account_id = 2",
        "UPDATE orders SET session_id = 'cs_9'",
        "UPDATE orders SET entry_id = NULL, state = 'made'",
        "DELETE FROM orders",
    ):
        with (
            pytest.raises(LedgerError, match=r"an order keeps its terms|orders are"),
            books.changing() as connection,
        ):
            connection.execute(sql)
