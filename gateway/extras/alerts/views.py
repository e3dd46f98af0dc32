"""The fields of an alert; `admin.fields` tells how to use them."""

from __future__ import annotations

from typing import Final

from gateway.admin.fields import Fields
from gateway.base.times import format_moment
from gateway.extras.alerts.records import AlertView


def _describe_delivery(alert: AlertView) -> str:
    if alert.delivered_ms is not None:
        return f"delivered {format_moment(alert.delivered_ms)}"
    word = "given up" if alert.next_try_ms is None else "waits"
    return f"{word}: {alert.reason}" if alert.reason else word


ALERT: Final = Fields[AlertView](
    *("id", "channel", "kind", "text", "created_ms", "next_try_ms", "attempts", "delivered_ms"),
    "reason",
    table=(
        ("RAISED UTC", "created_ms"),
        ("BY", "channel"),
        "kind",
        ("STATE", _describe_delivery),
        "text",
    ),
)
