"""The refusals of requests that cannot be paid, in words for their callers."""

from __future__ import annotations

from typing import Final, Literal

from gateway.errors import BalanceHeld, GatewayError, InsufficientBalance
from gateway.ledger.key_records import Budget, refuse_spent

Lack = Literal["balance", "cap", "budget", "balance held", "cap held", "budget held"]
"""The limit that is spent, or held by requests in flight."""

_SPENT: Final[dict[str, str]] = {
    "balance": "The account's balance is used up. Top it up; requests fail until it is positive.",
    "cap": "This key's spending cap is reached. Raise the cap or use another key.",
}
_HELD: Final[dict[str, str]] = {
    "balance held": "The account's whole balance is held by requests in flight. "
    "Try again when one has finished, or top up.",
    "cap held": "The rest of this key's spending cap is held by requests in flight. "
    "Try again when one has finished.",
}


def refuse_funds(lack: Lack, budget: Budget | None) -> GatewayError:
    """Make the refusal; `budget` is the key's."""
    if lack in _SPENT:
        return InsufficientBalance(_SPENT[lack])
    if lack in _HELD:
        return BalanceHeld(_HELD[lack])
    assert budget is not None
    if lack == "budget":
        return refuse_spent(budget)
    return BalanceHeld(
        f"The rest of {budget.title} is held by requests in flight. "
        "Try again when one has finished."
    )
