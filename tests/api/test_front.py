"""Request ids, dialects, errors as replies, and paths that nobody has."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import AsyncMock, Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.api.aiohttp_insides import KEPT_HEAD_BYTES
from gateway.api.front import Call, make_front
from gateway.api.paths import UNSERVED, explain_path
from gateway.api.routes import add_api, defer_continue, list_endpoints
from gateway.api.state import Gateway
from gateway.api.wire import choose_caller
from gateway.base.errors import BadRequest
from gateway.dialects.wire.base import Caller
from tests.support import client
from tests.support.chat import check_messages_error
from tests.support.formats import CALLERS
from tests.support.rows import each_row
from tests.support.stage import Stage

SERVED = [route.path for route in list_endpoints()]


def test_no_path_is_both_served_and_not() -> None:
    assert not set(UNSERVED) & set(SERVED)


def test_nothing_of_an_unknown_path_is_repeated() -> None:
    assert "secret" not in explain_path("/v1/files/secret", SERVED)
    assert "secret" not in explain_path("/models/secret", SERVED)


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
        call.settlement = cast("Any", recorded and SimpleNamespace(status=recorded))
        raise asyncio.CancelledError

    gateway = replace(SHARED, listeners=[lambda _, status: lines.append(status)])
    for logged in (True, False):
        with pytest.raises(asyncio.CancelledError):
            await make_front(gateway, serve, surface="", logged=logged)(
                make_mocked_request("GET", "/v1/key")
            )
    assert lines == [status]


@each_row("refused", [False, True])
async def test_a_listener_that_fails_costs_nobody_the_reply(
    caplog: pytest.LogCaptureFixture, *, refused: bool
) -> None:
    caplog.clear()
    fail, told = Mock(side_effect=ValueError("a bug")), list[int]()
    serve = AsyncMock(side_effect=[BadRequest("no") if refused else web.Response()])
    listeners: list[Any] = [fail, lambda _, status: told.append(status)]
    gateway = replace(SHARED, listeners=listeners, refusal_listeners=[fail])
    response = await make_front(gateway, serve, surface="")(make_mocked_request("GET", "/v1/key"))
    assert told == [response.status] == [400 if refused else 200]
    assert [one.message for one in caplog.records] == ["a listener failed"] * (1 + refused)


def test_only_what_is_charged_needs_a_balance() -> None:
    routes = list_endpoints()
    assert {one.path: one.access for one in routes if one.access != "charged"} == {
        "/v1/models": "free",
        "/v1/models/{model:.+}": "free",
        "/v1/receipts/{request_id}": "free",
        "/v1/key": "free",
        "/healthz": "open",
        "/readyz": "open",
    }


@each_row("path", [route.path for route in list_endpoints() if route.method == "POST"])
async def test_no_100_continue_is_sent_before_the_key_is_known(path: str) -> None:
    found = await resolve("POST", path)
    assert found.route._expect_handler is defer_continue


@each_row("caller", CALLERS.values())
async def test_a_callers_own_path_goes_by_no_header(caller: Caller) -> None:
    assert await find_dialect(caller.path, {"anthropic-version": "x"}, caller) == caller.name


SECRET: Final = b"sk-ru-not-to-be-told"
HOST: Final = b"Host: x\r\n"
MESSAGES: Final = b"POST /v1/messages?" + SECRET


@pytest.mark.parametrize(
    "pieces",
    [
        (MESSAGES + b" HTTP/3.9\r\n\r\n",),
        (MESSAGES + b" HTTP/1.1\r\n", b"A b: " + SECRET + b"\r\n\r\n"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", MESSAGES + b" HTTP/1.1\r\nA b:\r\n\r\n"),
    ],
)
async def test_the_dialect_is_that_of_the_path(stage: Stage, pieces: tuple[bytes, ...]) -> None:
    """Also if the head came in pieces, or on a connection that had another request."""
    async with client.connect(stage.gateway.port, forbidden=[SECRET]) as call:
        for one in pieces[:-1]:
            await call.send(one)
            if one.endswith(b"\r\n\r\n"):
                assert (await call.read_all()).status == 200
                call.status = 0
        await call.send(pieces[-1])
        check_messages_error(await call.read_all(), 400, "invalid_request_error")


def test_the_dialect_of_a_head_that_is_kept_in_part_is_that_of_its_path() -> None:
    """A head without an end is not kept beyond its first bytes."""
    head = b"GET /v1/messages/" + b"a" * (16 << 10)
    for most in (KEPT_HEAD_BYTES, len(head)):
        assert choose_caller(head[:most]).name == "messages"
