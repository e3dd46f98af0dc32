"""Every way into the console, and the application's share of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import hdrs, web

from gateway.console import (
    accounts_api,
    activity_api,
    billing_api,
    codes_api,
    keys_api,
    models_api,
    operations_api,
    overview_api,
    pages,
    session_api,
    settings_api,
    usage_api,
)
from gateway.console.desk import Desk
from gateway.console.door import make_handler, refuse_method, refuse_path
from gateway.console.state import CONSOLE, Console, Route
from gateway.console.vitals import Vitals
from gateway.state import Call, Gateway
from gateway.tasks import spawn

ROUTES: Final[tuple[Route, ...]] = (
    *session_api.ROUTES,
    *overview_api.ROUTES,
    *keys_api.ROUTES,
    *usage_api.ROUTES,
    *billing_api.ROUTES,
    *activity_api.ROUTES,
    *settings_api.ROUTES,
    *models_api.ROUTES,
    *accounts_api.ROUTES,
    *codes_api.ROUTES,
    *operations_api.ROUTES,
)


def add_console(app: web.Application, gateway: Gateway) -> None:
    """The console's routes, and what its requests share, for as long as the application lives."""
    console = Console(Desk(gateway.config.storage.path))
    app[CONSOLE] = console
    gateway.log_call = _note_errors(console.vitals, gateway.log_call)
    app.cleanup_ctx.append(_live)
    _add_api(app.router)
    _add_pages(app.router)


async def _live(app: web.Application) -> AsyncIterator[None]:
    console = app[CONSOLE]
    watching = spawn(console.vitals.run(), name="loop-lag")
    yield
    watching.cancel()
    await console.desk.close()


def _note_errors(
    vitals: Vitals, log_call: Callable[[Call, int], None]
) -> Callable[[Call, int], None]:
    def note(call: Call, status: int) -> None:
        vitals.note_call(call, status)
        log_call(call, status)

    return note


def _add_api(router: web.UrlDispatcher) -> None:
    by_path: dict[str, list[Route]] = defaultdict(list)
    for route in ROUTES:
        by_path[route.path].append(route)
    for path, routes in by_path.items():
        resource = router.add_resource(path)
        for route in routes:
            resource.add_route(route.method, make_handler(route))
        allowed = ", ".join(route.method for route in routes)
        resource.add_route(hdrs.METH_ANY, refuse_method(allowed))
    router.add_route(hdrs.METH_ANY, "/console/api/{rest:.*}", refuse_path)


def _add_pages(router: web.UrlDispatcher) -> None:
    shown = dict.fromkeys(pages.PATHS, pages.show_page)
    handlers = {
        "/console": pages.redirect_home,
        "/console/static/{file}": pages.show_file,
        **shown,
        "/console/{rest:.*}": pages.show_missing,
    }
    for path, handler in handlers.items():
        resource = router.add_resource(path)
        for method in (hdrs.METH_GET, hdrs.METH_HEAD):
            resource.add_route(method, handler)
        resource.add_route(hdrs.METH_ANY, refuse_method("GET, HEAD"))
