"""The applications of the API: which chain each has, and who answers which path."""

from __future__ import annotations

from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.api import CALL, Gateway, add_api
from gateway.api.body import defer_continue
from gateway.api.count_tokens import count_tokens
from gateway.api.middleware import make_front
from gateway.api.routes import CHARGED, FREE, make_applications
from gateway.dialects import CALLERS, Caller


async def resolve(method: str, path: str) -> web.UrlMappingMatchInfo:
    nothing = cast("Any", None)
    app = web.Application()
    add_api(app, Gateway(nothing, nothing, nothing, nothing, nothing))
    found: web.UrlMappingMatchInfo = await app.router.resolve(make_mocked_request(method, path))
    return found


async def find_dialect(path: str, headers: dict[str, str], *callers: Caller) -> str:
    async def tell(request: web.Request) -> web.Response:
        return web.Response(text=request[CALL].dialect.name)

    request = make_mocked_request("GET", path, headers=headers)
    response = await make_front(*callers, logged=False)(request, tell)
    assert isinstance(response, web.Response)
    return str(response.text)


def test_only_what_is_charged_needs_a_balance() -> None:
    chains = {prefix: middlewares[1:] for prefix, middlewares, _ in make_applications(CALLERS)}
    assert chains == {
        "/v1/chat/completions": CHARGED,
        "/v1/messages": CHARGED,
        "/v1/messages/count_tokens": FREE,
        "/v1": FREE,
        "/healthz": (),
        "/readyz": (),
    }


async def test_the_longer_prefix_wins() -> None:
    assert (await resolve("POST", "/v1/messages/count_tokens")).handler is count_tokens
    assert (await resolve("POST", "/v1/messages")).handler is not count_tokens


async def test_a_model_may_have_a_slash_in_its_name() -> None:
    found = await resolve("GET", "/v1/models/vendor/large")
    assert found["model"] == "vendor/large"


def test_no_100_continue_is_sent_before_the_key_is_known() -> None:
    tables = [routes for _, _, routes in make_applications(CALLERS)]
    posts = [one for routes in tables for one in routes if one.method == "POST"]
    assert len(posts) == 3
    assert all(one.kwargs["expect_handler"] is defer_continue for one in posts)


@pytest.mark.parametrize(
    ("headers", "name"), [({}, "chat"), ({"anthropic-version": "x"}, "messages")]
)
async def test_paths_of_all_dialects_go_by_the_header(headers: dict[str, str], name: str) -> None:
    assert await find_dialect("/v1/models", headers, *CALLERS.values()) == name


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
async def test_a_callers_own_path_goes_by_no_header(caller: Caller) -> None:
    assert await find_dialect(caller.path, {"anthropic-version": "x"}, caller) == caller.name
