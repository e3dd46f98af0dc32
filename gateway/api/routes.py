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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from aiohttp import hdrs, web

from gateway.api import lookups
from gateway.api.completions import serve_completion
from gateway.api.front import Handler, KeyHandler, make_front
from gateway.api.keys import require_key
from gateway.api.paths import refuse_method, refuse_path
from gateway.api.state import Gateway
from gateway.dialects.wire.base import Caller
from gateway.extension import find_formats

Access = Literal["charged", "free", "open"]
"""A route is open to callers with a balance, to callers with a key, or to everybody."""

OTHER_PATHS: Final = "_other"
"""Surface name for unknown paths, used in metrics."""
_ANY_REST: Final = "/{rest:.*}"


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
        Endpoint("GET", "/v1/models", "free", lookups.list_models, everybody),
        Endpoint("GET", "/v1/models/{model:.+}", "free", lookups.retrieve_model, everybody),
        Endpoint("GET", "/v1/receipts/{request_id}", "free", lookups.show_receipt, everybody),
        Endpoint("GET", "/v1/key", "free", lookups.show_key, everybody),
        Endpoint("GET", "/healthz", "open", lookups.report_health, everybody),
        Endpoint("GET", "/readyz", "open", lookups.report_readiness, everybody),
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
