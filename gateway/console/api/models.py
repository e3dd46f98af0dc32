"""The models and their prices. Operators also see models that are off, and all routes."""

from __future__ import annotations

from typing import Any, Final

from gateway.api.state import Gateway
from gateway.config.records import Model
from gateway.console.state import Answer, ConsoleRequest, Route
from gateway.money import describe_price
from gateway.prices import describe_rules


async def list_models(request: ConsoleRequest) -> Answer:
    gateway = request.gateway
    served = gateway.routes.models
    is_operator = request.account.operator
    models = [
        _describe_model(model, is_on=model.id in served, for_operator=is_operator)
        | ({"routes": _describe_routes(model, gateway)} if is_operator else {})
        for model in gateway.config.models.values()
        if is_operator or (model.id in served and request.account.terms.allows(model.id))
    ]
    currency = gateway.config.billing.currency
    return Answer({"count": len(models), "currency": currency, "models": models})


def _describe_model(model: Model, *, is_on: bool, for_operator: bool) -> dict[str, Any]:
    return {
        "id": model.id,
        "owned_by": model.owned_by,
        "kind": model.kind,
        "on": is_on,
        "free": model.free,
        "price": describe_price(model.prices.base, for_operator=for_operator),
        "price_when": describe_rules(model.prices, for_operator=for_operator),
        "max_input_tokens": model.max_input_tokens,
        "max_output_tokens": model.max_output_tokens,
    }


def _describe_routes(model: Model, gateway: Gateway) -> list[dict[str, object]]:
    """Describe the routes in the order in which they are tried."""
    providers = gateway.config.providers
    return [
        {
            "provider": route.provider,
            "model": route.upstream_model,
            "on": providers[route.provider].off is None,
        }
        for route in model.routes
    ]


ROUTES: Final = (Route("GET", "/console/api/models", "any", list_models),)
