"""Events, as operators see them."""

from __future__ import annotations

from typing import Final

from gateway.admin.fields import Fields
from gateway.ledger.records import EventView

EVENT: Final = Fields[EventView](
    *("id", "at_ms", "actor", "action", "account", "target", "detail", "address"),
    table=(
        ("WHEN UTC", "at_ms"),
        ("WHO", "actor"),
        ("WHAT", "action"),
        *("account", "target"),
        ("FROM", "address"),
        ("DETAIL", lambda event: event.detail),
    ),
)
