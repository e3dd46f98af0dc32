"""`GET /openapi.json`: the reference of what this gateway serves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from functools import cache
from typing import Final

import orjson
from aiohttp import web

from gateway.api.front import Call
from gateway.api.lookups import reply_json
from gateway.api.routes import Access as EndpointAccess
from gateway.api.routes import Endpoint, list_endpoints
from gateway.api.state import Gateway
from gateway.extension import Started, find_added, find_formats
from gateway.extras.reference.document import make_document
from gateway.extras.reference.records import Access, Route

_ACCESS: Final[dict[EndpointAccess, Access]] = {"charged": "key", "free": "key", "open": "open"}
_PATTERN: Final = re.compile(r"\{(\w+):[^}]*\}")


def start(gateway: Gateway) -> Started:
    formats = find_formats()

    async def answer(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - a handler
        routes = tuple(list_routes(gateway))
        server = gateway.config.server.public_url or "/"
        return reply_json(await asyncio.to_thread(_write, routes, server))

    callers = tuple(formats.callers.values())
    return Started(endpoints=[Endpoint("GET", "/openapi.json", "open", answer, callers)])


@cache
def _write(routes: tuple[Route, ...], server: str) -> bytes:
    return orjson.dumps(make_document(routes, server))


def list_routes(gateway: Gateway) -> Iterable[Route]:
    """List the endpoints under /v1, and the routes that other extras add."""
    added = (one for extra in gateway.extras for one in extra.endpoints)
    endpoints = {(one.method, one.path): one for one in (*list_endpoints(), *added)}
    for one in endpoints.values():
        path = _PATTERN.sub(r"{\1}", one.path)
        yield Route(one.method, path, _ACCESS[one.access], one.callers)
    for routes in find_added("reference"):
        assert isinstance(routes, list)
        yield from routes
