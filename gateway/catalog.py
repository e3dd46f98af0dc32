"""`GET /v1/models` and `GET /v1/models/{id}`: what can be asked for, in either dialect's shape."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from aiohttp import web
from multidict import MultiMapping

from gateway.config import Model
from gateway.errors import BadRequest, ModelNotFound
from gateway.state import CALL, GATEWAY

DEFAULT_PAGE: Final = 20
MAX_PAGE: Final = 1000
"""Of the messages shape (wire.md §3); the chat shape knows no pages."""


async def list_models(request: web.Request) -> web.Response:
    models = list(request.app[GATEWAY].routes.models.values())
    if request[CALL].dialect.name == "messages":
        return _reply(make_page(models, request.query))
    return _reply({"object": "list", "data": [show_chat_model(model) for model in models]})


def make_page(models: Sequence[Model], query: MultiMapping[str]) -> dict[str, Any]:
    """A page of the list: `limit` models after `after_id`, or right before `before_id`.

    Raises BadRequest for a limit out of range or an id that is not in the list.
    """
    limit = _read_limit(query.get("limit"))
    wanted = [*query.getall("lifecycle", ()), *query.getall("lifecycle[]", ())]
    if wanted and "active" not in wanted:
        models = ()  # all that is served is active
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None:
        models = models[_find(models, "after_id", after) + 1 :]
    if before is not None:
        models = models[: _find(models, "before_id", before)]
    backwards = before is not None and after is None
    page = models[-limit:] if backwards else models[:limit]
    data = [show_messages_model(model) for model in page]
    return {
        "data": data,
        "has_more": len(models) > len(page),
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


def _read_limit(value: str | None) -> int:
    if value is None:
        return DEFAULT_PAGE
    if not re.fullmatch("[0-9]{1,4}", value) or not 1 <= int(value) <= MAX_PAGE:
        raise BadRequest(f"limit: expected a number from 1 to {MAX_PAGE}.", param="limit")
    return int(value)


def _find(models: Sequence[Model], name: str, model_id: str) -> int:
    for index, model in enumerate(models):
        if model.id == model_id:
            return index
    raise BadRequest(f"{name}: there is no such model in the list.", param=name)


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
