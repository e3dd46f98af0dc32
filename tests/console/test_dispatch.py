"""Roles: every route of the console's API, called by everyone (default deny)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from gateway.admin import keys
from gateway.console.api import ROUTES
from gateway.console.origin import API_HEADERS
from gateway.console.routes import Route
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, open_console
from tests.support.rows import each_row

every_route: Final = each_row("route", ROUTES)
operators_routes: Final = each_row("route", [route for route in ROUTES if route.role == "operator"])
changing_routes: Final = each_row("route", [route for route in ROUTES if route.method != "GET"])
on_one_loop: Final = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with open_console(tmp_path_factory.mktemp("console")) as console:
        yield console


def fill(path: str) -> str:
    """Fill a path with ids that do not exist."""
    return re.sub(r"\{\w+\}", "123456", path)


@on_one_loop
@every_route
async def test_nobody_gets_nothing(console: Console, route: Route) -> None:
    reply = await console.ask(route.method, fill(route.path), {} if route.method != "GET" else None)
    if route.role == "none":
        assert reply.status in {400, 204}
    else:
        assert reply.refusal == (401, "not_signed_in", None)


@on_one_loop
@every_route
async def test_a_service_key_is_no_session(console: Console, route: Route) -> None:
    with console.open_books() as books:
        secret = keys.add_key(books, OPERATOR).secret
    headers = {"Authorization": f"Bearer {secret}", "x-api-key": secret}
    reply = await console.ask(route.method, fill(route.path), headers=headers)
    assert reply.status in ({400, 204} if route.role == "none" else {401})


@on_one_loop
@operators_routes
async def test_a_holder_is_told_nothing_of_operators_routes(console: Console, route: Route) -> None:
    for name in (HOLDER, OTHER):
        reply = await console.ask(route.method, fill(route.path), {}, as_=name, key="once")
        assert reply.refusal == (404, "not_found", None)
        assert "operator" not in reply.error["message"]


@on_one_loop
@operators_routes
async def test_an_operator_may(console: Console, route: Route) -> None:
    reply = await console.ask(route.method, fill(route.path), {}, as_=OPERATOR, key="once")
    assert reply.status in {200, 400, 404, 409}
    if reply.status == 404:
        assert "{" in route.path or "by-name" in route.path


@on_one_loop
@every_route
async def test_no_reply_is_kept_or_framed(console: Console, route: Route) -> None:
    reply = await console.ask(route.method, fill(route.path))
    for name, value in API_HEADERS.items():
        assert reply.headers[name] == value
    assert reply.headers["x-request-id"].startswith("req_")


@on_one_loop
@changing_routes
async def test_no_change_from_another_site(console: Console, route: Route) -> None:
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": console.root_url},
    ):
        reply = await console.ask(
            route.method, fill(route.path), {}, as_=OPERATOR, key="once", headers=headers
        )
        assert reply.refusal == (403, "cross_site", None)


@on_one_loop
@every_route
async def test_other_methods_are_refused_by_name(console: Console, route: Route) -> None:
    reply = await console.ask("PUT", fill(route.path), {}, as_=OPERATOR)
    assert reply.status == 405
    assert route.method in reply.headers["Allow"].split(", ")
    assert reply.error["code"] == "method_not_allowed"


@on_one_loop
async def test_an_unknown_address_is_a_404_in_json(console: Console) -> None:
    reply = await console.get(f"{API}/nothing/here")
    assert reply.refusal == (404, "not_found", None)


@on_one_loop
async def test_a_session_opens_no_door_but_the_consoles(console: Console) -> None:
    reply = await console.get("/v1/models", as_=OPERATOR)
    assert reply.status == 401


@on_one_loop
async def test_an_operators_rights_end_at_once(console: Console) -> None:
    """The role is read with each request; it is not stored in the session."""
    await console.sign_in(OPERATOR)
    assert (await console.get(f"{API}/accounts", as_=OPERATOR)).status == 200
    with console.open_books() as books, books.changing() as connection:
        connection.execute("UPDATE accounts SET operator = 0 WHERE name = ?", (OPERATOR,))
    try:
        assert (await console.get(f"{API}/accounts", as_=OPERATOR)).status == 404
    finally:
        with console.open_books() as books, books.changing() as connection:
            connection.execute("UPDATE accounts SET operator = 1 WHERE name = ?", (OPERATOR,))


@on_one_loop
@each_row("path", ["/console", "/console/keys", "/console/static/app.js", "/console/x"])
async def test_pages_are_only_read(console: Console, path: str) -> None:
    reply = await console.post(path, {}, as_=OPERATOR)
    assert reply.refusal == (405, "method_not_allowed", None)
    assert reply.headers["Allow"] == "GET, HEAD"
    assert API_HEADERS.items() <= reply.headers.items()
