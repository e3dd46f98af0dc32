"""JSON objects that the console shows and the command line does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.admin import views
from gateway.ledger import KeyView
from gateway.money import describe_amount

SPENT_DAYS: Final = 30
"""Days of `spent_30d`, today included."""


def describe_listed_key(
    key: KeyView, now_ms: int, spent_30d_nano: Mapping[str, int]
) -> dict[str, object]:
    """Describe a key with its status and its cost in 30 days, looked up by its id."""
    return {
        **views.describe_key(key),
        **describe_amount("spent_30d", spent_30d_nano.get(key.id, 0)),
        "status": key.status(now_ms),
    }
