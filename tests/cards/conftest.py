"""A served gateway whose holders pay at a played Stripe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.order_records import OrderView
from tests.cards.stripe_server import StripeServer, run_stripe
from tests.console.kit import API, CREDIT_NANO, HOLDER, Console, Reply, open_console

_keys = iter(range(10**9))


@dataclass(slots=True)
class Shop:
    """Both, and what a holder does there."""

    console: Console
    stripe: StripeServer

    async def order(self, amount: str = "10", *, as_: str = HOLDER, key: str = "") -> Reply:
        key = key or f"order-{next(_keys)}"
        return await self.console.post(
            f"{API}/billing/orders", {"amount": amount}, as_=as_, key=key
        )

    async def open_page(self, amount: str = "10", *, as_: str = HOLDER) -> dict[str, Any]:
        """Make an order; return the session of its payment page."""
        reply = await self.order(amount, as_=as_)
        assert reply.status == 201, reply.json
        return self.stripe.sessions[reply.json["url"].rpartition("/")[2]]

    def added_nano(self, account: str = HOLDER) -> int:
        """Return how much more there is than at the beginning."""
        with self.console.open_books() as books:
            return books.accounts.read(account).balance_nano - CREDIT_NANO

    def read_orders(self) -> list[OrderView]:
        with self.console.open_books() as books:
            return books.orders.read_latest(None, None, 99)

    def list_events(self, search: str) -> list[tuple[str, str]]:
        """Return action and actor, the earliest first."""
        with self.console.open_books() as books:
            found = books.events.read_page(search, None, 100)
        return [(event.action, event.actor) for event in reversed(found)]


@pytest.fixture(autouse=True)
def password_cost(cheap_passwords: None) -> None:
    """Nobody's password matters here."""


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with run_stripe() as stripe, open_console(tmp_path, billing=stripe.billing) as console:
        yield Shop(console, stripe)
