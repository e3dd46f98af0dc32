"""`GET /v1/key`: what a key may do, what it has spent, and what its account has left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from gateway.config import Limits
from gateway.ledger.base import Key, Spent
from gateway.state import CALL, GATEWAY
from gateway.times import DAY_MS, format_iso
from gateway.views import money


async def show_key(request: web.Request) -> web.Response:
    gateway, call = request.app[GATEWAY], request[CALL]
    assert call.key is not None
    spent = await gateway.ledger.read_spent(call.key, call.started_ms // DAY_MS)
    config = gateway.config
    body = describe_own_key(call.key, spent, config.limits, config.billing.currency)
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def describe_own_key(key: Key, spent: Spent, limits: Limits, currency: str) -> dict[str, Any]:
    """The key as its holder may see it: null is no limit, no cap, all models; days are UTC."""
    account = key.account
    rest_nano = None if key.cap_nano is None else max(key.cap_nano - key.spent_nano, 0)
    return {
        "id": key.id,
        "name": key.name,
        "models": None if key.models is None else sorted(key.models),
        **_describe_limits(key, limits),
        "expires": format_iso(key.expires_ms),
        "currency": currency,
        **money("cap", key.cap_nano),
        **money("cap_remaining", rest_nano),
        **money("spent", key.spent_nano),
        **money("spent_today", spent.today_nano),
        **money("spent_7d", spent.week_nano),
        **money("spent_30d", spent.month_nano),
        **money("balance", account.balance_nano),
        **money("held", account.held_nano),
        **money("available", account.available_nano),
    }


def _describe_limits(key: Key, defaults: Limits) -> Mapping[str, int | None]:
    """Those in force: the key's own, or else the configuration's; 0 is none in both."""
    return {
        name: (getattr(defaults, name) if own is None else own) or None
        for name, own in (
            ("requests_per_minute", key.requests_per_minute),
            ("tokens_per_minute", key.tokens_per_minute),
            ("concurrency", key.concurrency),
        )
    }
