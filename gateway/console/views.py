"""What the console shows and the command line does not: shapes of its own, as JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.ledger.records import CallView, KeyView
from gateway.ledger.usage_records import Usage
from gateway.times import format_iso
from gateway.views import count_tokens, describe_key, money

SPENT_DAYS: Final = 30
"""Of `spent_30d`, today included."""


def describe_listed_key(
    key: KeyView, now_ms: int, spent_30d_nano: Mapping[str, int]
) -> dict[str, object]:
    """A key with what it cost in 30 days, given by key."""
    return {
        **describe_key(key),
        **money("spent_30d", spent_30d_nano.get(key.id, 0)),
        "status": key.status(now_ms),
    }


def describe_call(call: CallView) -> dict[str, object]:
    return {
        "request_id": call.request_id,
        "started": format_iso(call.started_ms),
        "ended": format_iso(call.ended_ms),
        "model": call.model,
        "provider": call.provider,
        "key": call.key_id,
        "key_name": call.key_name,
        "key_display": call.key_display,
        "state": call.state,
        "outcome": call.outcome,
        "status": call.status,
        "stream": call.stream,
        **count_tokens(call.tokens),
        **money("cost", call.cost_nano),
        "estimated": call.estimated,
        "first_byte_ms": call.first_byte_ms,
        "total_ms": call.total_ms,
    }


def describe_sum(usage: Usage) -> dict[str, object]:
    return {
        "requests": usage.requests,
        **count_tokens(usage.tokens),
        **money("cost", usage.cost_nano),
    }


def sum_usage(usages: Iterable[Usage]) -> Usage:
    return Usage(*map(sum, zip(*usages, strict=True)))
