"""Records of payments by card: orders, and what the payment provider says of them.

An order is made before the provider is asked for a payment page. The credit's amount and account are
the order's; the provider only says whether it was paid. Its fees are the operator's, and move no balance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """The payment page; None until the provider has told it."""
    payment_id: str | None
    taken_nano: int
    """The amount that refunds and disputes took back."""
    created_ms: int
    changed_ms: int
    """The time of the state's last change."""
    entry_id: int | None
    """The credit."""
    fee_nano: int | None
    """The amount that the provider took; None if that is unknown, or not in one currency."""
    fee_currency: str | None


@dataclass(frozen=True, slots=True)
class Fee:
    """The fee that the provider took for a payment or a dispute; each id counts once."""

    id: str
    kind: Literal["payment", "dispute"]
    amount_nano: int
    """Below zero where something was given back."""
    currency: str
    """In capitals: the one that the provider pays out in, which may not be the order's."""
    created_ms: int


@dataclass(frozen=True, slots=True)
class FeeSums:
    """The fees that the provider took in some days."""

    by_currency: tuple[tuple[str, int, int], ...]
    """Each currency with the number of its orders, and the sum in nano-units."""
    unknown: int
    """Orders of these days that were paid, and whose payment's fee is not known."""


@dataclass(frozen=True, slots=True)
class Payment:
    """The state of a payment page, as the provider tells it."""

    session_id: str
    order_id: str | None
    """The order that the page was made for, as it was told then."""
    state: PageState
    """Open also while the payment is under way, which takes days for some kinds."""
    amount_nano: int
    currency: str
    """In capitals, as in reversals."""
    payment_id: str | None


@dataclass(frozen=True, slots=True)
class Reversal:
    """A refund or a dispute, or what all refunds of a charge have come to."""

    id: str
    kind: Literal["refund", "refunds", "dispute"]
    payment_id: str
    order_id: str | None
    amount_nano: int
    currency: str
    stands: bool
    """False once the refund failed, or the dispute was won."""
    fees: tuple[Fee, ...] = ()
