"""The balance at the paths where OpenAI once had it, and where clients of one-api ask for it.

These clients compute the rest as `hard_limit_usd` minus a hundredth of `total_usage`. It is the balance, or
the rest of the key's cap or budget if that is less. Amounts are in the gateway's currency.
"""

from __future__ import annotations

from typing import Final

import orjson
from aiohttp import web

from gateway.api.front import KeyedCall
from gateway.api.routes import Endpoint
from gateway.base.money import format_amount
from gateway.dialects.chat.dialect import ChatCaller
from gateway.extension import Started
from gateway.ledger.base import Key

CENTS: Final = 100
"""Hundredths of a unit of currency, in which `total_usage` is stated."""


def start() -> Started:
    """Return the two paths."""
    paths = {"subscription": show_subscription, "usage": show_usage}
    callers = (ChatCaller(),)
    return Started(
        endpoints=[
            Endpoint("GET", f"/v1/dashboard/billing/{name}", "free", handler, callers)
            for name, handler in paths.items()
        ]
    )


async def show_subscription(http: web.Request, call: KeyedCall) -> web.Response:  # noqa: ARG001 - a handler
    key, left_nano = call.key, find_left_nano(call.key, call.started_ms)
    limit = _number(left_nano + key.spent_nano)
    return _reply(
        {
            "object": "billing_subscription",
            "has_payment_method": True,
            "soft_limit_usd": limit,
            "hard_limit_usd": limit,
            "system_hard_limit_usd": limit,
            "access_until": (key.terms.expires_ms or 0) // 1000,
        }
    )


async def show_usage(http: web.Request, call: KeyedCall) -> web.Response:  # noqa: ARG001 - a handler
    # Dates are ignored, as in one-api: the usage is everything that the key ever spent.
    return _reply({"object": "list", "total_usage": _number(call.key.spent_nano * CENTS)})


def find_left_nano(key: Key, now_ms: int) -> int:
    left = [key.account.balance_nano]
    if key.terms.cap_nano is not None:
        left.append(key.terms.cap_nano - key.spent_nano)
    if key.budget is not None:
        left.append(key.budget.show(now_ms).remaining_nano)
    return min(left)


def _number(nano: int) -> orjson.Fragment:
    """Return an amount as a JSON number, with all its digits."""
    return orjson.Fragment(format_amount(nano))


def _reply(body: dict[str, object]) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")
