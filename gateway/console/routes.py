"""The console's routes, as two sub-applications: the JSON API and the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import hdrs, web

from gateway.api import GATEWAY, Call, Gateway, make_front
from gateway.console import pages
from gateway.console.api import ROUTES
from gateway.console.books_thread import BooksThread
from gateway.console.dispatch import make_handler, refuse_method, refuse_path
from gateway.console.process_state import ProcessState
from gateway.console.state import CONSOLE, ConsoleState, Route
from gateway.tasks import spawn

FRONT: Final = make_front()
PAGE_FRONT: Final = make_front(logged=False)
"""Not logged: showing the page takes two dozen files."""
API_PREFIX: Final = "/console/api"
PREFIX: Final = "/console"


def add_console(app: web.Application, gateway: Gateway) -> None:
    """Add the console's API and its page to the application."""
    console = ConsoleState(BooksThread(gateway.config.storage.path))
    gateway.log_call = _note_errors(console.process, gateway.log_call)
    api = web.Application(middlewares=(FRONT,))
    api[GATEWAY] = gateway
    api[CONSOLE] = console
    api.cleanup_ctx.append(_run_console)
    _add_api(api.router)
    app.add_subapp(API_PREFIX, api)
    shown = web.Application(middlewares=(PAGE_FRONT,))
    shown[GATEWAY] = gateway
    _add_pages(shown.router)
    app.add_subapp(PREFIX, shown)


async def _run_console(app: web.Application) -> AsyncIterator[None]:
    console = app[CONSOLE]
    measuring = spawn(console.process.measure_loop_lag(), name="loop-lag")
    yield
    measuring.cancel()
    await console.books_thread.close()


def _note_errors(
    process: ProcessState, log_call: Callable[[Call, int], None]
) -> Callable[[Call, int], None]:
    def note(call: Call, status: int) -> None:
        process.note_call(call, status)
        log_call(call, status)

    return note


def _add_api(router: web.UrlDispatcher) -> None:
    by_path: dict[str, list[Route]] = defaultdict(list)
    for route in ROUTES:
        by_path[route.path].append(route)
    for path, routes in by_path.items():
        resource = router.add_resource(path.removeprefix(API_PREFIX))
        for route in routes:
            resource.add_route(route.method, make_handler(route))
        allowed = ", ".join(route.method for route in routes)
        resource.add_route(hdrs.METH_ANY, refuse_method(allowed))
    router.add_route(hdrs.METH_ANY, "/{rest:.*}", refuse_path)


def _add_pages(router: web.UrlDispatcher) -> None:
    shown = dict.fromkeys(pages.PATHS, pages.show_page)
    handlers = {
        "/console": pages.redirect_home,
        "/console/static/{file}": pages.show_file,
        **shown,
        "/console/{rest:.*}": pages.show_missing,
    }
    for path, handler in handlers.items():
        resource = router.add_resource(path.removeprefix(PREFIX))
        for method in (hdrs.METH_GET, hdrs.METH_HEAD):
            resource.add_route(method, handler)
        resource.add_route(hdrs.METH_ANY, refuse_method("GET, HEAD"))
