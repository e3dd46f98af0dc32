"""The routes that look something up: models, the caller's own key, its receipts, the gateway's health."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.api.state import Call, Gateway, find_limits
from gateway.config.records import Config, Limits, Model
from gateway.dialects.records import Json, ListedModel
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.errors import ModelNotFound, NotFound
from gateway.ids import is_request_id
from gateway.ledger.alert_records import RefusedView
from gateway.ledger.base import Key
from gateway.ledger.call_records import Spent, describe_receipt
from gateway.ledger.key_records import BudgetStanding, Terms
from gateway.money import describe_amount
from gateway.times import DAY_MS, format_iso


async def list_models(http: web.Request, call: Call) -> web.Response:
    """Reply with the models that the key and its account may use."""
    models = [_list(one) for one in call.gateway.routes.models.values() if _may(call, one)]
    query = {name: http.query.getall(name) for name in http.query}
    return _reply(call.dialect.list_models(models, query))


async def retrieve_model(http: web.Request, call: Call) -> web.Response:
    wanted = http.match_info["model"]
    model = call.gateway.routes.find_model(wanted)
    if model is None or not _may(call, model):
        assert call.key is not None
        raise ModelNotFound(wanted, find_problem(call.gateway, call.key, wanted))
    return _reply(call.dialect.show_model(replace(_list(model), id=wanted)))


def _may(call: Call, model: Model) -> bool:
    return call.key is None or call.key.allows(model.id)


def _list(model: Model) -> ListedModel:
    return ListedModel(
        id=model.id,
        kind=model.kind,
        owned_by=model.owned_by,
        created=model.created,
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
    )


def _reply(body: Json) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


MAX_NAME_CHARS: Final = 100
"""A longer name gets no suggestion: to compare texts takes the square of their length."""
MAX_COMPARED: Final = 16
"""Names that are compared in full: those with the most letters in common with the one asked for."""


def find_problem(gateway: Gateway, key: Key, name: str) -> str:
    """Return why the gateway does not serve the model, as far as this key may know."""
    models = gateway.routes.models
    if name not in models and name in gateway.config.models and key.allows(name):
        return "is switched off here: its provider is not set up."
    known = [one for one in models if key.allows(one)] if len(name) <= MAX_NAME_CHARS else []
    similar = find_similar(name, known)
    return f"does not exist here; did you mean '{similar}'?" if similar else "does not exist here."


def find_similar(name: str, known: list[str]) -> str | None:
    """Return the known name that was probably meant, if there is one."""
    import difflib  # 0.2 MiB, for errors only

    wanted = name.lower()
    letters = set(wanted)
    nearest = heapq.nsmallest(
        MAX_COMPARED,
        (one for one in known if len(one) <= MAX_NAME_CHARS),
        key=lambda one: len(letters.symmetric_difference(one.lower())),
    )
    by_text = {one.lower(): one for one in nearest}
    return next((by_text[one] for one in difflib.get_close_matches(wanted, by_text, n=1)), None)


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
    if receipt is not None and receipt.key_id == key.id:
        body = describe_receipt(receipt, gateway.config.billing.currency)
    elif is_id and (refused := await gateway.ledger.read_refused(request_id, key.id)) is not None:
        body = _describe_refused(refused)
    else:
        # One answer for both: an id must not tell that another key made a request.
        raise NotFound(
            "There is no receipt of that request id for this key. The id is in the reply's "
            "x-request-id; only the key that made a request gets its receipt, and a request "
            "that was refused before it was admitted is known for 7 days."
        )
    return web.Response(body=dumps_lenient(body), content_type="application/json")


def _describe_refused(refused: RefusedView) -> dict[str, Any]:
    return {
        "request_id": refused.request_id,
        "state": "refused",
        "at": format_iso(refused.at_ms),
        "code": refused.code,
        "model": refused.model,
    }


async def report_health(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - answering is the report
    return web.Response(text="alive\n")


async def report_readiness(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - a handler
    """Answer 503 while draining, or while the ledger cannot be written."""
    gateway = call.gateway
    if gateway.draining:
        return web.Response(text="draining\n", status=503)
    if not gateway.ledger.writable:
        return web.Response(text="the ledger cannot be written\n", status=503)
    return web.Response(text="ready\n")
