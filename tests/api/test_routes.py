"""The applications of the API: which chain each has, and who answers which path."""

from __future__ import annotations

from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.api import Gateway, add_api, choose_by_header
from gateway.api.body import defer_continue
from gateway.api.count_tokens import count_tokens
from gateway.api.routes import APPLICATIONS, CHARGED, FREE


async def resolve(method: str, path: str) -> web.UrlMappingMatchInfo:
    nothing = cast("Any", None)
    app = web.Application()
    add_api(app, Gateway(nothing, nothing, nothing, nothing, nothing))
    found: web.UrlMappingMatchInfo = await app.router.resolve(make_mocked_request(method, path))
    return found


def test_only_what_is_charged_needs_a_balance() -> None:
    chains = {prefix: middlewares[1:] for prefix, middlewares, _ in APPLICATIONS}
    assert chains == {
        "/v1/chat": CHARGED,
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
    posts = [one for _, _, routes in APPLICATIONS for one in routes if one.method == "POST"]
    assert len(posts) == 3
    assert all(one.kwargs["expect_handler"] is defer_continue for one in posts)


@pytest.mark.parametrize(
    ("headers", "name"), [({}, "chat"), ({"anthropic-version": "x"}, "messages")]
)
def test_paths_of_both_dialects_go_by_the_header(headers: dict[str, str], name: str) -> None:
    request = make_mocked_request("GET", "/v1/models", headers=headers)
    assert choose_by_header(request).name == name
