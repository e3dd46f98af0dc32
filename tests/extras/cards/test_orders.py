"""Orders in the books of each database, their pages, and alerts about them; `books/` has sessions with them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway.base.money import NANO
from gateway.extras.alerts.findings import find_told_events
from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.records import Payment, Reversal
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.cards.conftest import Shop


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


def test_ids_at_the_provider_may_be_long(books: Books) -> None:
    """They may have 255 characters, which is more than operators' idempotency keys."""
    order = OrderBook(books).make("a", 500, "USD")
    page, refund = "cs_".ljust(255, "x"), "re_".ljust(255, "x")
    OrderBook(books).settle(Payment(page, order.id, "paid", 500, "USD", "pi_1"))
    OrderBook(books).take_back(Reversal(refund, "refund", "pi_1", None, 100, "USD", stands=True))
    assert (books.accounts.read("a").balance_nano, books.audit().problems) == (1400, ())


BILLING: Final = "https://example.com/console/billing"


async def test_a_page_is_made_again_after_the_shop_got_another_name(shop: Shop) -> None:
    """The reply of the first one got lost. Under the same name it would be the same page."""
    shop.stripe.status = 503
    assert (await shop.order("once")).status == 503
    shop.stripe.status = 200
    [order] = shop.read_orders()
    provider = shop.make_cashier().provider
    pages = [
        await asyncio.to_thread(provider.make_page, order, name, BILLING)
        for name in ("Example AI", "Example AI", "Other AI")
    ]
    assert [session_id for session_id, _ in pages] == ["cs_test_1", "cs_test_1", "cs_test_2"]
    reply = await shop.order("once")
    assert reply.status == 201
    assert reply.json["url"].endswith("cs_test_3")
    [order] = shop.read_orders()
    assert order.session_id == "cs_test_3"


def test_what_becomes_of_a_payment_is_told(tmp_path: Path) -> None:
    """Refunds, disputes, and what contradicts its order."""
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        books.accounts.create("ann")
        order = OrderBook(books).make("ann", NANO, "USD")
        payment = Payment("cs_1", order.id, "paid", NANO, "USD", "pi_1")
        OrderBook(books).settle(replace(payment, amount_nano=7))
        OrderBook(books).settle(payment)
        refund = Reversal("re_1", "refund", "pi_1", None, NANO, "USD", stands=True)
        OrderBook(books).take_back(refund)
        OrderBook(books).take_back(replace(refund, id="dp_1", kind="dispute"))
        found = {one.kind: one.text for one in find_told_events(books, {})}
    assert found == {
        "payment_refused": "What is told of a card payment of 'ann' contradicts its order and is ignored:"
        " 0.000000007 USD was paid.",
        "payment_refunded": "A payment by card of account 'ann' was given back: -1.00: card refund re_1"
        f" of {order.id}.",
        "payment_disputed": "A payment by card of account 'ann' is disputed, or a dispute of it ended:"
        f" -1.00: card dispute dp_1 of {order.id}.",
    }
