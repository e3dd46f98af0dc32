"""Payments by card: holders buy credit in the console, at a payment provider.

Without it [billing.stripe] is refused, the console sells nothing, and orders of earlier times are not
looked up; what was credited stays.

    webhook   the address at which the provider tells what was paid; starts all of it
    stripe    the only provider, by Stripe's package
    cashier   the seam: what a provider of payment pages has to offer, and its errors; opens the pages,
              brings orders to what the provider says, looks open orders up

Who owns the truth: the order says for whom and how much, the provider whether it was paid, and the
books whether that was credited. An order is a row before the provider is asked, and the page's address
is told only once its id is kept; so whoever can pay can be looked up. What the provider tells comes late,
twice, in any order or never, and `ledger.sql.orders` makes the same of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _start(gateway: Gateway) -> Started:
    cards = gateway.config.billing.stripe
    if cards is None:
        return Started()
    from gateway.extras.cards.webhook import start  # with Stripe's package, which most do without

    return start(gateway, cards)


EXTRA = Extra(needs=("console",), start=_start)
