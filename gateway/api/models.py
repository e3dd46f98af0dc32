"""`GET /v1/models` and `GET /v1/models/{id}`, in the shape of the caller's dialect."""

from __future__ import annotations

import orjson
from aiohttp import web

from gateway.api.state import Call
from gateway.api.unknown_models import find_problem
from gateway.config import Model
from gateway.dialects import Json, ListedModel
from gateway.errors import ModelNotFound


async def list_models(http: web.Request, call: Call) -> web.Response:
    """Reply with the models that the key and its account may use."""
    models = [_list(one) for one in call.gateway.routes.models.values() if _may(call, one)]
    query = {name: http.query.getall(name) for name in http.query}
    return _reply(call.dialect.list_models(models, query))


async def retrieve_model(http: web.Request, call: Call) -> web.Response:
    wanted = http.match_info["model"]
    model = call.gateway.routes.models.get(wanted)
    if model is None or not _may(call, model):
        assert call.key is not None
        raise ModelNotFound(wanted, find_problem(call.gateway, call.key, wanted))
    return _reply(call.dialect.show_model(_list(model)))


def _may(call: Call, model: Model) -> bool:
    return call.key is None or call.key.allows(model.id)


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
