"""The page "Try it" in the console, and the models that it offers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.api.state import Gateway
from gateway.config.records import Model
from gateway.dialects.wire.records import DEMO
from gateway.extras.console.additions import Addition
from gateway.extras.console.routes import Answer, ConsoleRequest, async_route

ADDITION: Final = Addition(
    scripts=(Path(__file__).with_name("static"),),
    own_pages={"try": "Try it"},
    parts={"newkey": "try"},
)


@async_route("GET", "/playground", "any")
async def list_models(request: ConsoleRequest) -> Answer:
    """List the models that answer messages and that the account may use, in the order of the file."""
    gateway = request.gateway
    served = gateway.routes.models
    found = [
        _describe_model(gateway, model)
        for model in gateway.config.models.values()
        if model.id in served and model.talks and request.account.terms.allows(model.id)
    ]
    return Answer({"count": len(found), "models": found})


def _describe_model(gateway: Gateway, model: Model) -> dict[str, object]:
    providers = gateway.config.providers
    is_demo = all(providers[route.provider].dialect == DEMO for route in model.routes)
    takes_effort = not is_demo and model.reasoning != "none"
    return {"id": model.id, "demo": is_demo, "reasoning_effort": takes_effort}
