"""What a key tells of itself: `GET /v1/key`, and `GET /v1/receipts/{request_id}` of its requests."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from gateway.api.call import Call
from gateway.api.state import find_limits
from gateway.config.records import Config, Limits
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.errors import NotFound
from gateway.ledger.base import Key
from gateway.ledger.call_records import Spent, describe_receipt
from gateway.ledger.key_records import BudgetStanding, Terms
from gateway.money import describe_amount
from gateway.request_ids import is_request_id
from gateway.times import DAY_MS, format_iso


async def show_key(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - a handler
    assert call.key is not None
    spent = await call.gateway.ledger.read_spent(call.key, call.started_ms // DAY_MS)
    body = describe_own_key(call.key, spent, call.gateway.config, call.started_ms)
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def describe_own_key(key: Key, spent: Spent, config: Config, now_ms: int) -> dict[str, Any]:
    """Make the JSON of a key: null means no limit, cap or budget, all models; days are UTC."""
    account = key.account
    rest_nano = None if key.terms.cap_nano is None else max(key.terms.cap_nano - key.spent_nano, 0)
    return {
        "id": key.id,
        "name": key.terms.name,
        **_describe_terms(key.terms, config.limits),
        "account": _describe_terms(account.terms, config.account_limits),
        "expires": format_iso(key.terms.expires_ms),
        "currency": config.billing.currency,
        **describe_amount("cap", key.terms.cap_nano),
        **describe_amount("cap_remaining", rest_nano),
        **describe_amount("spent", key.spent_nano),
        "budget": None if key.budget is None else _describe_budget(key.budget.show(now_ms)),
        **describe_amount("spent_today", spent.today_nano),
        **describe_amount("spent_7d", spent.week_nano),
        **describe_amount("spent_30d", spent.month_nano),
        **describe_amount("balance", account.balance_nano),
        **describe_amount("held", account.held_nano),
        **describe_amount("available", account.available_nano),
    }


def _describe_budget(budget: BudgetStanding) -> dict[str, Any]:
    return {
        "name": budget.name,
        "period": budget.period,
        **describe_amount("amount", budget.amount_nano),
        **describe_amount("spent", budget.spent_nano),
        **describe_amount("remaining", budget.remaining_nano),
        "resets": format_iso(budget.resets_ms),
    }


def _describe_terms(terms: Terms, defaults: Limits) -> dict[str, Any]:
    limits = find_limits(terms, defaults)
    return {
        "models": None if terms.models is None else sorted(terms.models),
        "requests_per_minute": limits.requests_per_minute or None,
        "tokens_per_minute": limits.tokens_per_minute or None,
        "concurrency": limits.concurrency or None,
    }


async def show_receipt(http: web.Request, call: Call) -> web.Response:
    gateway, key = call.gateway, call.key
    assert key is not None
    request_id = http.match_info["request_id"]
    is_id = is_request_id(request_id)
    receipt = await gateway.ledger.read_receipt(request_id) if is_id else None
    if receipt is None or receipt.key_id != key.id:
        raise NotFound(
            "There is no receipt of that request id for this key. The id is in the reply's "
            "x-request-id; only the key that made a request gets its receipt, and a request "
            "that was refused before it was admitted has none."
        )
    body = describe_receipt(receipt, gateway.config.billing.currency)
    return web.Response(body=dumps_lenient(body), content_type="application/json")
