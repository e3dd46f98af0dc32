"""Errors as responses: the headers that tell SDKs what to do, and aiohttp's own refusals."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.api.call import Call
from gateway.api.front import refuse_method, render_error
from gateway.dialects.exchanges import CALLERS
from gateway.errors import (
    BodyTooLarge,
    GatewayError,
    InternalError,
    InvalidKey,
    MethodNotAllowed,
    NotFound,
    Overloaded,
)
from tests.support.records import make_call
from tests.support.rows import each_row


def render(error: GatewayError, dialect: str = "chat") -> tuple[Call, web.Response]:
    call = make_call(dialect)
    return call, render_error(call, error)


@each_row(
    ("seconds", "header", "milliseconds"),
    [(0.0, "1", "1"), (0.2, "1", "200"), (1.0, "1", "1000"), (1.001, "2", "1001"), (60, "60", "60000")],
)  # fmt: skip
def test_a_wait_is_rounded_up_to_whole_seconds(
    seconds: float, header: str, milliseconds: str
) -> None:
    """A client that waits less than it was told is refused again."""
    _, response = render(Overloaded("x", retry_after_seconds=seconds))
    told = response.headers["Retry-After"], response.headers["retry-after-ms"]
    assert told == (header, milliseconds)


def test_an_error_that_stays_says_so_and_has_no_wait() -> None:
    call, response = render(InvalidKey())
    assert response.headers["x-should-retry"] == "false"
    assert "Retry-After" not in response.headers
    assert call.error_code == "invalid_api_key", "for the log line"
    assert "x-should-retry" not in render(InternalError())[1].headers


def test_a_refused_method_names_those_allowed_and_a_large_body_ends_the_connection() -> None:
    assert render(MethodNotAllowed("x", allow="GET"))[1].headers["Allow"] == "GET"
    assert render(BodyTooLarge("x"))[1].keep_alive is False
    assert render(NotFound("x"))[1].keep_alive is None


@each_row("dialect", CALLERS)
def test_the_body_is_the_dialects(dialect: str) -> None:
    _, response = render(NotFound("gone"), dialect)
    assert isinstance(response.body, bytes)
    assert response.body == CALLERS[dialect].render_error(NotFound("gone"), "req_1")
    assert json.loads(response.body)["error"]["message"] == "gone"
    assert response.content_type == "application/json"


async def test_methods_that_a_path_does_not_have_are_told_those_it_has() -> None:
    request = make_mocked_request("PUT", "/v1/models")
    with pytest.raises(MethodNotAllowed, match="Not allowed to PUT here; use GET") as refusal:
        await refuse_method("GET")(request, make_call())
    assert refusal.value.allow == "GET"
