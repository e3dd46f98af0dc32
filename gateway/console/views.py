"""What the console shows and the command line does not: shapes of its own, as JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final

from gateway.cli_output import format_iso
from gateway.cli_views import count_tokens, describe_key, money
from gateway.ledger.records import CallView, KeyView
from gateway.ledger.totals import HOUR_MS
from gateway.ledger.usage_records import Usage


def describe_own_key(
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


def format_day(day: int) -> str:
    """A UTC day counted from the epoch, such as 2026-05-14."""
    return date.fromordinal(_EPOCH + day).isoformat()


def format_hour(hour: int) -> str:
    """The beginning of a UTC hour counted from the epoch."""
    return format_iso(hour * HOUR_MS) or ""


_EPOCH: Final = date(1970, 1, 1).toordinal()
