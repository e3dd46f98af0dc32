"""`GET /v1/models` and `GET /v1/models/{id}`, in the shape of the caller's dialect."""

from __future__ import annotations

import orjson
from aiohttp import web

from gateway.api.state import CALL, GATEWAY
from gateway.config import Model
from gateway.dialects import Json, ListedModel
from gateway.errors import ModelNotFound


async def list_models(request: web.Request) -> web.Response:
    """Reply with the models that the key and its account may use."""
    models = [
        _list(model)
        for model in request.app[GATEWAY].routes.models.values()
        if _may(request, model)
    ]
    query = {name: request.query.getall(name) for name in request.query}
    return _reply(request[CALL].dialect.list_models(models, query))


async def retrieve_model(request: web.Request) -> web.Response:
    wanted = request.match_info["model"]
    model = request.app[GATEWAY].routes.models.get(wanted)
    if model is None or not _may(request, model):
        raise ModelNotFound(wanted)
    return _reply(request[CALL].dialect.show_model(_list(model)))


def _may(request: web.Request, model: Model) -> bool:
    key = request[CALL].key
    return key is None or key.allows(model.id)


def _list(model: Model) -> ListedModel:
    return ListedModel(
        id=model.id,
        owned_by=model.owned_by,
        created=model.created,
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
    )


def _reply(body: Json) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")
