"""The console's routes: the JSON API and the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final

from aiohttp import hdrs, web

from gateway.api import Call, Gateway, Handler, make_front
from gateway.console import pages
from gateway.console.api import ROUTES
from gateway.console.books_thread import BooksThread
from gateway.console.dispatch import make_handler, refuse_method, refuse_path
from gateway.console.process_state import ProcessState
from gateway.console.state import ConsoleState, Route
from gateway.tasks import spawn

API_PREFIX: Final = "/console/api"


def add_console(app: web.Application, gateway: Gateway) -> None:
    """Add the console's API and its page to the application."""
    console = ConsoleState(BooksThread(gateway.config.storage.location))
    gateway.log_call = _note_errors(console.process, gateway.log_call)

    async def run(_: web.Application) -> AsyncIterator[None]:
        measuring = spawn(console.process.measure_loop_lag(), name="loop-lag")
        yield
        measuring.cancel()
        await console.books_thread.close()

    app.cleanup_ctx.append(run)
    _add_api(app.router, gateway, console)
    _add_pages(app.router, gateway)


def _note_errors(
    process: ProcessState, log_call: Callable[[Call, int], None]
) -> Callable[[Call, int], None]:
    def note(call: Call, status: int) -> None:
        process.note_call(call, status)
        log_call(call, status)

    return note


def _add_api(router: web.UrlDispatcher, gateway: Gateway, console: ConsoleState) -> None:
    front = partial(make_front, gateway, surface="console")
    by_path: dict[str, list[Route]] = defaultdict(list)
    for route in ROUTES:
        by_path[route.path].append(route)
    for path, routes in by_path.items():
        resource = router.add_resource(path)
        for route in routes:
            resource.add_route(route.method, front(make_handler(route, console)))
        allowed = ", ".join(route.method for route in routes)
        resource.add_route(hdrs.METH_ANY, front(refuse_method(allowed)))
    router.add_route(hdrs.METH_ANY, f"{API_PREFIX}/{{rest:.*}}", front(refuse_path))


def _ignore_call(show: Callable[[web.Request], Awaitable[web.Response]]) -> Handler:
    async def handle(http: web.Request, call: Call) -> web.StreamResponse:  # noqa: ARG001 - a handler
        return await show(http)

    return handle


def _add_pages(router: web.UrlDispatcher, gateway: Gateway) -> None:
    """Add the page, which is not logged: showing it takes two dozen files."""
    router.add_get(
        "/", make_front(gateway, _ignore_call(pages.redirect_browser), surface="console")
    )
    handlers = {
        "/console": pages.redirect_home,
        "/console/static/{file}": pages.show_file,
        **dict.fromkeys(pages.PATHS, pages.show_page),
        "/console/{rest:.*}": pages.show_missing,
    }
    for path, handler in handlers.items():
        resource = router.add_resource(path)
        front = partial(make_front, gateway, surface="console", logged=False)
        show = front(_ignore_call(handler))
        for method in (hdrs.METH_GET, hdrs.METH_HEAD):
            resource.add_route(method, show)
        resource.add_route(hdrs.METH_ANY, front(refuse_method("GET, HEAD")))
