"""The fields of an order; `admin.fields` tells how to use them."""

from __future__ import annotations

from typing import Final

from gateway.admin.fields import Fields
from gateway.base.money import format_amount
from gateway.base.times import format_moment
from gateway.extras.cards.records import OrderView


def _describe_fee(order: OrderView) -> str:
    return (
        "-" if order.fee_nano is None else f"{format_amount(order.fee_nano)} {order.fee_currency}"
    )


ORDER: Final = Fields[OrderView](
    *("id", "account", "amount_nano", "currency", "state", "taken_nano", "created_ms"),
    *("changed_ms", "session_id", "payment_id"),
    table=(
        *("id", "account", "amount_nano"),
        ("STATE", lambda order: f"{order.state} {format_moment(order.changed_ms)}"),
        (">TAKEN BACK {}", "taken_nano"),
        ("PAYMENT PAGE", "session_id"),
    ),
)
"""A payment by card, as its holder sees it."""
SOLD_ORDER: Final = Fields[OrderView](
    *ORDER.members,
    *("entry_id", "fee_nano", "fee_currency"),
    table=(*ORDER.columns, (">FEE", _describe_fee)),
)
"""The same with the provider's fee, only for operators."""
