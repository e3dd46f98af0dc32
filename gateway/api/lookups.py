"""The handlers that look something up: models, the caller's key, receipts, health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import orjson
from aiohttp import web

from gateway.api.admission import find_problem
from gateway.api.front import Call, KeyedCall
from gateway.api.limits import find_limits
from gateway.base.errors import ModelNotFound, NotFound
from gateway.base.ids import is_request_id
from gateway.base.money import describe_amount
from gateway.base.process import describe_version
from gateway.base.times import DAY_MS, format_iso
from gateway.config.records import Config, Model
from gateway.dialects.wire.base import ListedModel
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.ledger.base import Key
from gateway.ledger.budget_records import BudgetStanding
from gateway.ledger.call_records import Spent, describe_receipt
from gateway.ledger.key_records import LIMITS, Limits, Terms
from gateway.ledger.opening import find_schema

VERSION_HEADER: Final = "X-Gateway-Version"
"""The header of `/healthz` that tells the version, the commit and the schema's number."""


def reply_json(body: bytes, headers: Mapping[str, str] = MappingProxyType({})) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json", **headers})


async def list_models(http: web.Request, call: KeyedCall) -> web.Response:
    """Reply with the models that the key and its account may use."""
    routes, key = call.gateway.routes, call.key
    models = [_describe(one) for one in routes.models.values() if key.allows(one.id)]
    query = {name: http.query.getall(name) for name in http.query}
    return reply_json(orjson.dumps(call.dialect.list_models(models, query)))


async def retrieve_model(http: web.Request, call: KeyedCall) -> web.Response:
    wanted = http.match_info["model"]
    model = call.gateway.routes.find_model(wanted)
    if model is None or not call.key.allows(model.id):
        raise ModelNotFound(wanted, find_problem(call.gateway, call.key, wanted))
    return reply_json(orjson.dumps(call.dialect.show_model(replace(_describe(model), id=wanted))))


def _describe(model: Model) -> ListedModel:
    return ListedModel(
        id=model.id,
        kind=model.kind,
        owned_by=model.owned_by,
        created=model.created,
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
    )


async def show_key(http: web.Request, call: KeyedCall) -> web.Response:  # noqa: ARG001 - a handler
    spent = await call.gateway.ledger.read_spent(call.key, call.started_ms // DAY_MS)
    body = describe_own_key(call.key, spent, call.gateway.config, call.started_ms)
    return reply_json(orjson.dumps(body))


def describe_own_key(key: Key, spent: Spent, config: Config, now_ms: int) -> dict[str, object]:
    """Describe a key as JSON: null means no limit, no cap, no budget, or all models; days are UTC."""
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


def _describe_budget(budget: BudgetStanding) -> dict[str, object]:
    return {
        "name": budget.name,
        "period": budget.period,
        **describe_amount("amount", budget.amount_nano),
        **describe_amount("spent", budget.spent_nano),
        **describe_amount("remaining", budget.remaining_nano),
        "resets": format_iso(budget.resets_ms),
    }


def _describe_terms(terms: Terms, defaults: Limits) -> dict[str, object]:
    limits = find_limits(terms, defaults)
    return {
        "models": None if terms.models is None else sorted(terms.models),
        **{name: getattr(limits, name) or None for name in LIMITS},
    }


async def show_receipt(http: web.Request, call: KeyedCall) -> web.Response:
    gateway, key = call.gateway, call.key
    request_id = http.match_info["request_id"]
    is_id = is_request_id(request_id)
    receipt = await gateway.ledger.read_receipt(request_id) if is_id else None
    # Both cases get the same answer: nobody may learn that another key made a request.
    if receipt is None or receipt.key_id != key.id:
        raise NotFound(
            "There is no receipt of that request id for this key. The id is in the reply's "
            "x-request-id; only the key that made a request gets its receipt."
        )
    return reply_json(dumps_lenient(describe_receipt(receipt, gateway.config.billing.currency)))


async def report_health(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - answering is the report
    version = describe_version(find_schema(call.gateway.config.storage.location))
    return web.Response(text="alive\n", headers={VERSION_HEADER: version})


async def report_readiness(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - a handler
    """Answer 503 while draining, or while the ledger cannot be written."""
    gateway = call.gateway
    if gateway.draining:
        return web.Response(text="draining\n", status=503)
    if not gateway.ledger.writable:
        return web.Response(text="the ledger cannot be written\n", status=503)
    return web.Response(text="ready\n")
