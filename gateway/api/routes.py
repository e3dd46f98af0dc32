"""The routes of the API, each wrapped in the layers that it needs.

route                       errors speak     key, rate    charged    log line
a caller's `path`           the caller's     yes          yes        yes
a service's `path`          chat             yes          yes        yes
models, receipts, key       by a header      yes          no         yes
/healthz, /readyz           by a header      no           no         no
any other path              by a header      no           no         yes

A path below a caller's path is answered in that caller's dialect, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, cast

import orjson
from aiohttp import hdrs, web

from gateway.api.admission import find_problem
from gateway.api.completions import serve_completion
from gateway.api.front import Call, Handler, KeyedCall, KeyHandler, make_front
from gateway.api.keys import require_key
from gateway.api.limits import find_limits
from gateway.api.paths import refuse_method, refuse_path
from gateway.api.state import Gateway
from gateway.base.errors import ModelNotFound, NotFound
from gateway.base.ids import is_request_id
from gateway.base.money import describe_amount
from gateway.base.process import describe_version
from gateway.base.times import DAY_MS, format_iso
from gateway.config.records import Config, Limits, Model
from gateway.dialects.wire.base import Caller, ListedModel
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.extension import find_formats
from gateway.ledger.base import Key
from gateway.ledger.budget_records import BudgetStanding
from gateway.ledger.call_records import Spent, describe_receipt
from gateway.ledger.key_records import Terms
from gateway.ledger.opening import find_schema

Access = Literal["charged", "free", "open"]
"""A route is open to callers with a balance, to callers with a key, or to everybody."""

OTHER_PATHS: Final = "_other"
"""Surface name for unknown paths, used in metrics."""
_ANY_REST: Final = "/{rest:.*}"
VERSION_HEADER: Final = "X-Gateway-Version"
"""The header of `/healthz` that tells the version, the commit and the schema's number."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: Literal["DELETE", "GET", "HEAD", "POST"]
    path: str
    access: Access
    handler: KeyHandler
    """An "open" one takes a `Call` without a key."""
    callers: tuple[Caller, ...]

    @property
    def surface(self) -> str:
        """The path in metrics, without the version and the variable part."""
        return self.path.removeprefix("/v1").strip("/").partition("/{")[0]

    def wrap(self) -> Handler:
        """Wrap the handler in the check of the caller that the route needs."""
        if self.access == "open":
            return cast("Handler", self.handler)
        return require_key(self.handler, for_money=self.access == "charged")


def add_api(app: web.Application, gateway: Gateway) -> None:
    """Add all endpoints, those of extras among them, and the handlers that refuse unknown paths."""
    added = [one for extra in gateway.extras for one in extra.endpoints]
    endpoints = {(one.method, one.path): one for one in (*list_endpoints(), *added)}
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints.values():
        paths.setdefault(endpoint.path, []).append(endpoint)
    for path, methods in paths.items():
        _add_path(app.router, gateway, path, methods)
    refuse = refuse_path(paths)
    callers = find_formats().callers.values()
    for one in callers:
        front = make_front(gateway, refuse, (one,), surface=OTHER_PATHS)
        app.router.add_route(hdrs.METH_ANY, f"/v1{one.path}{_ANY_REST}", front)
    front = make_front(gateway, refuse, callers, surface=OTHER_PATHS)
    app.router.add_route(hdrs.METH_ANY, _ANY_REST, front)


def list_endpoints() -> list[Endpoint]:
    """Return the completions of every caller, and what all callers share."""
    formats = find_formats()
    everybody = tuple(formats.callers.values())
    charged = [
        Endpoint("POST", f"/v1{one.path}", "charged", serve_completion, (one,))
        for one in formats.every_caller
    ]
    return [
        *charged,
        Endpoint("GET", "/v1/models", "free", list_models, everybody),
        Endpoint("GET", "/v1/models/{model:.+}", "free", retrieve_model, everybody),
        Endpoint("GET", "/v1/receipts/{request_id}", "free", show_receipt, everybody),
        Endpoint("GET", "/v1/key", "free", show_key, everybody),
        Endpoint("GET", "/healthz", "open", report_health, everybody),
        Endpoint("GET", "/readyz", "open", report_readiness, everybody),
    ]


def _add_path(
    router: web.UrlDispatcher, gateway: Gateway, path: str, methods: Sequence[Endpoint]
) -> None:
    resource = router.add_resource(path)
    # Clients ask for the head of what they could read, to see whether a server is there.
    heads = (replace(one, method="HEAD") for one in methods if one.method == hdrs.METH_GET)
    methods = [*methods, *heads]
    refuse = refuse_method(", ".join(one.method for one in methods))
    for method, handler, endpoint in (
        *((one.method, one.wrap(), one) for one in methods),
        (hdrs.METH_ANY, refuse, methods[0]),
    ):
        front = make_front(
            gateway,
            handler,
            endpoint.callers,
            surface=endpoint.surface,
            logged=endpoint.access != "open",
        )
        # aiohttp would ask for the body before the key is known.
        expect = defer_continue if endpoint.method == hdrs.METH_POST else None
        resource.add_route(method, front, expect_handler=expect)
        if method != hdrs.METH_ANY and "{" not in path:
            gateway.fronts[method, path] = front


async def defer_continue(http: web.Request) -> None:
    """Send no `100 Continue` yet (aiohttp's hook): `bodies.read_body` does once the key is known."""


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
        "requests_per_minute": limits.requests_per_minute or None,
        "tokens_per_minute": limits.tokens_per_minute or None,
        "concurrency": limits.concurrency or None,
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
