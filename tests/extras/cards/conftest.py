"""A served gateway whose holders pay at a played Stripe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.cashier import Cashier
from gateway.extras.cards.records import OrderView
from gateway.extras.cards.settings import Cards
from gateway.extras.cards.webhook import make_cashier
from tests.extras.cards.stripe_server import SECRET_KEY, WEBHOOK_SECRET, StripeServer, run_stripe
from tests.extras.console.kit import API, Console, open_console
from tests.ledger.sql.conftest import books, clock, place
from tests.support.served import CREDIT_NANO, HOLDER, Reply

__all__ = ["books", "clock", "place"]

_keys = iter(range(10**9))


@dataclass(slots=True)
class Shop:
    """Both, and what a holder does there."""

    console: Console
    stripe: StripeServer

    async def order(self, key: str) -> Reply:
        return await self.console.post(f"{API}/billing/orders", {"amount": "10"}, key=key)

    async def open_page(self) -> dict[str, Any]:
        """Make an order; return the session of its payment page."""
        reply = await self.order(f"order-{next(_keys)}")
        assert reply.status == 201, reply.json
        return self.stripe.sessions[reply.json["url"].rpartition("/")[2]]

    def make_cashier(self) -> Cashier:
        """Make one like the gateway's own, whose chore sleeps."""
        cards = Cards(SECRET_KEY, WEBHOOK_SECRET, (), 0, 0, self.stripe.url)
        return make_cashier(cards, "USD", self.console.database)

    def added_nano(self) -> int:
        """Return how much more the holder has than at the beginning."""
        with self.console.open_books() as books:
            return books.accounts.read(HOLDER).balance_nano - CREDIT_NANO

    def read_orders(self) -> list[OrderView]:
        with self.console.open_books() as books:
            return OrderBook(books).read_latest(None, None, 99)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with run_stripe() as stripe, open_console(tmp_path, billing=stripe.billing) as console:
        yield Shop(console, stripe)
