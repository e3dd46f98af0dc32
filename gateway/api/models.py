"""`GET /v1/models` and `GET /v1/models/{id}`, in the shape of the caller's dialect."""

from __future__ import annotations

import heapq
from typing import Final

import orjson
from aiohttp import web

from gateway.api.call import Call
from gateway.api.state import Gateway
from gateway.config.records import Model
from gateway.dialects.records import Json, ListedModel
from gateway.errors import ModelNotFound
from gateway.ledger.base import Key


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
