"""The routes of the API: the layers around each handler, and who answers which path."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.api.bodies import defer_continue
from gateway.api.call import Call
from gateway.api.front import make_front
from gateway.api.routes import add_api, make_routes
from gateway.api.state import Gateway
from gateway.dialects.base import Caller
from gateway.dialects.exchanges import CALLERS
from tests.support.rows import each_row

NOTHING = cast("Any", None)
TIMELESS = cast("Any", SimpleNamespace(clock=lambda: 0))
SHARED = Gateway(NOTHING, TIMELESS, NOTHING, NOTHING, NOTHING)


async def resolve(method: str, path: str) -> web.UrlMappingMatchInfo:
    app = web.Application()
    add_api(app, SHARED)
    found: web.UrlMappingMatchInfo = await app.router.resolve(make_mocked_request(method, path))
    return found


async def find_dialect(path: str, headers: dict[str, str], *callers: Caller) -> str:
    async def tell(_: web.Request, call: Call) -> web.Response:
        return web.Response(text=call.dialect.name)

    request = make_mocked_request("GET", path, headers=headers)
    response = await make_front(SHARED, tell, callers, surface="", logged=False)(request)
    assert isinstance(response, web.Response)
    return str(response.text)


@each_row(("recorded", "status"), [(None, 503), (200, 200)])
async def test_a_request_that_is_cancelled_has_its_line_in_the_log(
    recorded: int | None, status: int
) -> None:
    lines: list[int] = []

    async def serve(_: web.Request, call: Call) -> web.Response:
        call.status = recorded
        raise asyncio.CancelledError

    gateway = replace(SHARED, log_call=lambda _, status: lines.append(status))
    for logged in (True, False):
        with pytest.raises(asyncio.CancelledError):
            await make_front(gateway, serve, surface="", logged=logged)(
                make_mocked_request("GET", "/v1/key")
            )
    assert lines == [status]


def test_only_what_is_charged_needs_a_balance() -> None:
    assert {route.path: route.access for route in make_routes(CALLERS)} == {
        "/v1/chat/completions": "charged",
        "/v1/messages": "charged",
        "/v1/embeddings": "charged",
        "/v1/responses": "charged",
        "/v1/responses/input_tokens": "free",
        "/v1/messages/count_tokens": "free",
        "/v1/models": "free",
        "/v1/models/{model:.+}": "free",
        "/v1/receipts/{request_id}": "free",
        "/v1/key": "free",
        "/healthz": "open",
        "/readyz": "open",
    }


async def test_a_model_may_have_a_slash_in_its_name() -> None:
    found = await resolve("GET", "/v1/models/vendor/large")
    assert found["model"] == "vendor/large"


@each_row("path", [route.path for route in make_routes(CALLERS) if route.method == "POST"])
async def test_no_100_continue_is_sent_before_the_key_is_known(path: str) -> None:
    found = await resolve("POST", path)
    assert found.route._expect_handler is defer_continue


@each_row(("headers", "name"), [({}, "chat"), ({"anthropic-version": "x"}, "messages")])
async def test_paths_of_all_dialects_go_by_the_header(headers: dict[str, str], name: str) -> None:
    assert await find_dialect("/v1/models", headers, *CALLERS.values()) == name


@each_row("caller", CALLERS.values())
async def test_a_callers_own_path_goes_by_no_header(caller: Caller) -> None:
    assert await find_dialect(caller.path, {"anthropic-version": "x"}, caller) == caller.name
