"""Dispatch console requests: check origin, caller, role and body, call the handler, reply.

All routes of the API are reached through `make_handler`; anything that is not in the table of
routes is refused. A route that needs no session says so with the role `none`. Errors are JSON. The
reference of the API is made from the same table.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from gateway.api.front import Call, Handler, make_front
from gateway.api.keys import note_known
from gateway.api.state import Gateway
from gateway.base.addresses import find_address
from gateway.base.deadlines import limit_seconds
from gateway.base.errors import RESTARTING, drop_frames
from gateway.base.turns import spawn
from gateway.extension import Started
from gateway.extras.console import (  # noqa: F401 - the decorators of handlers make the routes
    accounts,
    billing,
    callers,
    calls,
    errors,
    keys,
    overview,
    pages,
    session,
    settings,
    usage,
)
from gateway.extras.console.additions import Renewer, Script, find_additions
from gateway.extras.console.bodies import read_body, render, render_error
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.routes import (
    API_PREFIX,
    ROUTES,
    Caller,
    ConsoleRequest,
    Role,
    Route,
    is_idempotent,
)
from gateway.extras.console.state import BooksThread, ConsoleState
from gateway.extras.signins import browsers
from gateway.extras.signins.records import SessionView

if TYPE_CHECKING:
    from gateway.extras.reference import records as reference

log = logging.getLogger("gateway.console")

REFRESH_SECONDS: Final = 1.0
"""How long a reply waits until a change is in force, as the ledger may hang."""
_ACCESS: Final[dict[Role, reference.Access]] = {
    "none": "open",
    "any": "session",
    "operator": "operator",
}
"""The reference's word for each role."""


def make_handler(route: Route, console: ConsoleState) -> Handler:
    """Make the handler of a route. It replies with JSON, with CSV or without a body."""

    async def handle(http: web.Request, call: Call) -> web.StreamResponse:
        identify(http, call)
        try:
            return await _serve(http, call, route, console)
        except Exception as error:  # noqa: BLE001 - each kind is told apart
            refusal = errors.explain(call.request_id, error)
            drop_frames(error)  # an error that refers to this request would live until a collection
            return render_error(call, refusal)

    return handle


def refuse_method(allowed: str) -> Handler:
    async def handle(http: web.Request, call: Call) -> web.StreamResponse:
        identify(http, call)
        message = f"Not allowed to {http.method} here; use {allowed}."
        response = render_error(call, ConsoleError(405, "method_not_allowed", message))
        response.headers[hdrs.ALLOW] = allowed
        return response

    return handle


async def refuse_path(http: web.Request, call: Call) -> web.StreamResponse:
    identify(http, call)
    return render_error(call, errors.not_found("address"))


def identify(http: web.Request, call: Call) -> None:
    """Note method, path and address for the log line; the path's variable parts are left out."""
    proxies = call.gateway.config.server.trusted_proxies
    resource = http.match_info.route.resource
    call.visit = {
        "method": http.method,
        "path": "" if resource is None else resource.canonical,
        "address": find_address(http.remote or "", http.headers, proxies),
    }


async def _serve(
    http: web.Request, call: Call, route: Route, console: ConsoleState
) -> web.StreamResponse:
    gateway = call.gateway
    if gateway.draining:
        raise errors.unavailable(RESTARTING)
    is_change = route.method != hdrs.METH_GET
    # Before the caller is looked up: another site must not learn who is signed in.
    if not callers.read_tokens(http):  # a browser sends no token by itself
        _check_origin(http, gateway, is_change=is_change)
    request = await _admit(http, call, route, console)
    # Only sign-in routes have no role; they have their own throttles.
    if is_change and route.role != "none":
        _limit_changes(request)
    is_renewal = callers.RENEWAL in http.headers and not is_change
    renewers = gateway.find_offers(Renewer) if is_renewal else ()
    answer = await (renewers[0] if renewers else Renewer()).answer(request, route)
    if is_change:
        await _refresh(gateway)
    if isinstance(answer, web.StreamResponse):
        return answer
    return render(answer, gateway)


def _limit_changes(request: ConsoleRequest) -> None:
    """Count a change, so that no holder and no script can fill the disk. Raises ConsoleError."""
    console = request.console
    if request.script is not None:
        wait_seconds = console.token_changes.take(request.script.id)
    elif request.account.operator:
        wait_seconds = 0
    else:
        wait_seconds = console.changes.take(request.account.id)
    if wait_seconds:
        raise errors.too_many_changes(wait_seconds)


def _check_origin(http: web.Request, gateway: Gateway, *, is_change: bool) -> None:
    own = callers.read_own_origins(http, gateway.config.server)
    if not browsers.is_same_site(http.headers, own, is_change=is_change):
        raise ConsoleError(
            403,
            "cross_site",
            "This request came from another site. Open the console itself, at the address that"
            " public_url names in gateway.toml.",
        )


async def _admit(
    http: web.Request, call: Call, route: Route, console: ConsoleState
) -> ConsoleRequest:
    """Find the caller, check the role and read the body. Raises ConsoleError."""
    caller = await callers.find_caller(http, call, console)
    _check_role(route, caller)
    # Behind the check: the connection of somebody who is refused may be closed for others.
    if caller is not None:
        note_known(http)
    body = b"" if route.method == hdrs.METH_GET else await read_body(http)
    return ConsoleRequest(http, call, console, caller, body)


def _check_role(route: Route, caller: Caller) -> None:
    match caller:
        case Script() if caller.role not in route.tokens:
            raise errors.not_for_token(
                f"This token has the role {caller.role}, which may not do this."
            )
        case SessionView(by_proxy=True) if route.role == "none":
            # To sign out here would do nothing: the proxy names them again with the next request.
            raise errors.signed_in_by_proxy()
        case SessionView() if route.role == "operator" and not caller.account.operator:
            raise errors.not_found()  # holders must not learn which routes operators have
        case None if route.role != "none":
            raise errors.not_signed_in()
        case _:
            pass


async def _refresh(gateway: Gateway) -> None:
    """Let the serving ledger read the change, so that it is in force when the reply arrives.

    If the ledger is slow the change takes effect with its next commit.
    """
    try:
        async with limit_seconds(REFRESH_SECONDS):
            await gateway.ledger.refresh()
    except TimeoutError:
        log.warning("a change made in the console takes effect with the next commit of the ledger")


def tell_routes() -> Sequence[reference.Route]:
    """Return all routes, those of other extras among them, for the reference of the API."""
    from gateway.extras.reference import records as reference  # only where it is

    find_additions()  # registers the other extras' routes
    return [
        reference.Route(
            method=one.method,
            path=one.path,
            access=_ACCESS[one.role],
            tokens=frozenset(one.tokens),
            idempotent=is_idempotent(one),
        )
        for one in ROUTES
    ]


def start(gateway: Gateway) -> Started:
    """Begin to serve the console beside a gateway."""
    return Started(add_routes=partial(add_console, gateway))


def add_console(gateway: Gateway, app: web.Application) -> None:
    """Add the console's API and its page to the application."""
    console = ConsoleState(BooksThread(gateway.config.storage.location))

    async def run(_: web.Application) -> AsyncIterator[None]:
        measuring = spawn(console.process.measure_loop_lag(), name="loop-lag")
        yield
        measuring.cancel()
        await console.books_thread.close()

    app.cleanup_ctx.append(run)
    _add_api(app.router, gateway, console)
    _add_pages(app.router, gateway)


def _add_api(router: web.UrlDispatcher, gateway: Gateway, console: ConsoleState) -> None:
    front = partial(make_front, gateway, surface="console")
    by_path: dict[str, list[Route]] = defaultdict(list)
    for route in ROUTES:
        by_path[route.path].append(route)
    for path, routes in by_path.items():
        resource = router.add_resource(path)
        methods: list[tuple[str, Route]] = [(route.method, route) for route in routes]
        methods += [(hdrs.METH_HEAD, one) for one in routes if one.method == hdrs.METH_GET]
        for method, route in methods:
            resource.add_route(method, front(make_handler(route, console), logged=route.logged))
        allowed = ", ".join(method for method, _ in methods)
        resource.add_route(hdrs.METH_ANY, front(refuse_method(allowed)))
    router.add_route(hdrs.METH_ANY, f"{API_PREFIX}/{{rest:.*}}", front(refuse_path))


def _add_pages(router: web.UrlDispatcher, gateway: Gateway) -> None:
    """Add the page, which is not logged: showing it takes two dozen files."""
    router.add_get("/", make_front(gateway, pages.redirect_browser, surface="console"))
    handlers = {
        "/console": pages.redirect_home,
        "/console/static/{file}": pages.show_file,
        **dict.fromkeys(pages.PATHS, pages.show_page),
        "/console/{rest:.*}": pages.show_missing,
    }
    for path, handler in handlers.items():
        resource = router.add_resource(path)
        front = partial(make_front, gateway, surface="console", logged=False)
        show = front(handler)
        for method in (hdrs.METH_GET, hdrs.METH_HEAD):
            resource.add_route(method, show)
        resource.add_route(hdrs.METH_ANY, front(refuse_method("GET, HEAD")))
