"""Errors as responses: the headers that tell SDKs what to do, and aiohttp's own refusals."""

from __future__ import annotations

import json

import pytest
from aiohttp import web

from gateway.api import Call
from gateway.api.error_replies import render_error, translate_http_error
from gateway.dialects import CALLERS
from gateway.errors import (
    BodyTooLarge,
    GatewayError,
    InternalError,
    InvalidKey,
    MethodNotAllowed,
    NotFound,
    Overloaded,
)


def render(error: GatewayError, dialect: str = "chat") -> tuple[Call, web.Response]:
    call = Call("req_1", CALLERS[dialect], 0.0, 0)
    return call, render_error(call, error)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("dialect", CALLERS)
def test_the_body_is_the_dialects(dialect: str) -> None:
    _, response = render(NotFound("gone"), dialect)
    assert isinstance(response.body, bytes)
    assert response.body == CALLERS[dialect].render_error(NotFound("gone"), "req_1")
    assert json.loads(response.body)["error"]["message"] == "gone"
    assert response.content_type == "application/json"


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (web.HTTPNotFound(), NotFound),
        (web.HTTPRequestEntityTooLarge(1, 2), BodyTooLarge),
        (web.HTTPMethodNotAllowed("PUT", ["POST", "GET"]), MethodNotAllowed),
        (web.HTTPForbidden(), InternalError),
    ],
)
def test_refusals_of_aiohttp_are_translated(
    refusal: web.HTTPException, kind: type[GatewayError]
) -> None:
    error = translate_http_error(refusal)
    assert type(error) is kind
    if isinstance(error, MethodNotAllowed):
        assert error.allow == "GET, POST"
