"""Alerts about payments by card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gateway.base.money import NANO
from gateway.extras.alerts.findings import find_told_events
from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.records import Payment, Reversal
from gateway.ledger.sqlite.books import SqliteBooks


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
