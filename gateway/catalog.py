"""`GET /v1/models` and `GET /v1/models/{id}`: what can be asked for, in either dialect's shape."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.config import Model
from gateway.errors import ModelNotFound
from gateway.state import CALL, GATEWAY


async def list_models(request: web.Request) -> web.Response:
    models = request.app[GATEWAY].routes.models.values()
    if request[CALL].dialect.name == "messages":
        data = [show_messages_model(model) for model in models]
        return _reply(
            {
                "data": data,
                "has_more": False,
                "first_id": data[0]["id"] if data else None,
                "last_id": data[-1]["id"] if data else None,
            }
        )
    return _reply({"object": "list", "data": [show_chat_model(model) for model in models]})


async def retrieve_model(request: web.Request) -> web.Response:
    wanted = request.match_info["model"]
    model = request.app[GATEWAY].routes.models.get(wanted)
    if model is None:
        raise ModelNotFound(wanted)
    show = _SHAPES[request[CALL].dialect.name]
    return _reply(show(model))


def show_chat_model(model: Model) -> dict[str, Any]:
    """The spec's model object (2.6)."""
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.owned_by,
    }


def show_messages_model(model: Model) -> dict[str, Any]:
    """Anthropic's model object (wire.md §3), null where nothing is known."""
    created = datetime.fromtimestamp(model.created, UTC)
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "capabilities": None,
        "max_input_tokens": model.max_input_tokens,
        "max_tokens": model.max_output_tokens,
        "line": None,
        "deprecated_at": None,
        "retires_at": None,
    }


_SHAPES: Final = {"chat": show_chat_model, "messages": show_messages_model}


def _reply(body: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")
