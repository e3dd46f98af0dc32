"""Records of payments by card: orders, and what the payment provider reports about them.

An order is made before the provider is asked for a payment page. The credit's amount and account are the
order's; the provider only says whether it was paid. The operator bears its fees; they change no balance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gateway.admin.fields import Fields
from gateway.base.money import format_amount
from gateway.base.times import format_moment

OrderState = Literal["made", "paid", "failed", "expired", "refunded"]
PageState = Literal["open", "paid", "failed", "expired"]


@dataclass(frozen=True, slots=True)
class OrderView:
    id: str
    """Ids sort by time."""
    account: str
    amount_nano: int
    currency: str
    state: OrderState
    session_id: str | None
    """The id of the payment page; None until it is known."""
    payment_id: str | None
    taken_nano: int
    """The amount that refunds and disputes took back."""
    created_ms: int
    changed_ms: int
    """The time of the state's last change."""
    entry_id: int | None
    """The id of the entry that credits it."""
    fee_nano: int | None
    """The provider's fee; None if it is unknown or not in one currency."""
    fee_currency: str | None


@dataclass(frozen=True, slots=True)
class Fee:
    """The fee that the provider took for a payment or a dispute; each id counts once."""

    id: str
    kind: Literal["payment", "dispute"]
    amount_nano: int
    """Negative if the provider paid it back."""
    currency: str
    """In capitals: the currency that the provider pays out, which may differ from the order's."""
    created_ms: int


@dataclass(frozen=True, slots=True)
class FeeSums:
    """The provider's fees in a range of days."""

    by_currency: tuple[tuple[str, int, int], ...]
    """Each currency with the number of its orders, and the sum in nano-units."""
    unknown: int
    """Paid orders of these days whose payment fee is unknown."""


@dataclass(frozen=True, slots=True)
class Payment:
    """The state of a payment page, as reported by the provider."""

    session_id: str
    order_id: str | None
    """The order id that was sent when the page was made."""
    state: PageState
    """Open also while the payment is under way, which takes days for some kinds."""
    amount_nano: int
    currency: str
    """In capitals, as in reversals."""
    payment_id: str | None


@dataclass(frozen=True, slots=True)
class Reversal:
    """A refund or a dispute, or the sum of all refunds of a charge."""

    id: str
    kind: Literal["refund", "refunds", "dispute"]
    payment_id: str
    order_id: str | None
    amount_nano: int
    currency: str
    stands: bool
    """False once the refund failed, or the dispute was won."""
    fees: tuple[Fee, ...] = ()


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
