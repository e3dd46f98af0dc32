"""Payments by card: holders buy credit in the console, at a payment provider.

Without it [billing.stripe] is refused, the console sells nothing and shows no order, and those of earlier
times are neither looked up nor compared with their entries by an audit; what was credited stays.

    webhook   the address at which the provider tells what was paid; starts all of it
    settings  the table [billing.stripe] of gateway.toml; the smallest amounts of currencies
    records   orders, what the provider tells of them, and how they are shown
    book      the tables of orders, see `tables.sql`; `proof.sql` has the checks of an audit
    verbs     `orders`
    console   paying and receipts for holders, orders and fees for operators; `static` has the pages
    provider  what a provider of payment pages has to offer, and its errors
    stripe    the only provider, by Stripe's package
    stripe_objects  what Stripe's objects say, each value checked
    cashier   opens the pages, brings orders to what the provider says, looks open orders up

Each fact has one source: the order says for whom and how much, the provider whether it was paid, and the
books whether it was credited. An order is stored before the provider is asked, and a page's address is
shown only after the page's id is stored, so each page that can be paid can be looked up. The provider's
messages may come late, twice, in any order or never; `book` comes to the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gateway.extension import Extra, LedgerTables, Started, Table

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.config.records import ReadTable


def _find_settings() -> type:
    from gateway.extras.cards.settings import Cards

    return Cards


def _check_values(table: ReadTable) -> Mapping[str, object]:
    from gateway.extras.cards.settings import check_values

    return check_values(table)


def _find_literals(table: Mapping[str, object]) -> Iterable[str]:
    from gateway.extras.cards.settings import find_literals

    return find_literals(table)


def _start(gateway: Gateway) -> Started:
    from gateway.extras.cards.settings import TABLE, Cards

    cards = gateway.config.extras.get(TABLE)
    if not isinstance(cards, Cards):
        return Started()
    from gateway.extras.cards.webhook import start  # with Stripe's package, which most do without

    return start(gateway, cards)


def _add_to_console() -> object:
    from gateway.extras.cards.console import ADDITION

    return ADDITION


EXTRA = Extra(
    adds_to={"console": _add_to_console},
    ledger=LedgerTables(names=("orders", "order_reversals", "order_fees")),
    needs=("console", "packages", "reports", "signins"),
    tables={
        "billing.stripe": Table(
            _find_settings,
            at_restart="billing.stripe",  # payments end at the account at which they began
            check_values=_check_values,
            find_literals=_find_literals,
        )
    },
    first_words={"orders": "List credit that is bought by card: the latest orders first."},
    start=_start,
)
