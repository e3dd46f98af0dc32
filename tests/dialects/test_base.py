"""Callers of OpenAI's APIs get the same errors, headers and models whichever they call."""

from __future__ import annotations

import json

from gateway.dialects.base import format_duration
from gateway.dialects.exchanges import CALLERS
from gateway.dialects.records import ListedModel
from gateway.errors import BadRequest
from tests.support.rows import each_row

CALLER = CALLERS["chat"]


def test_errors_are_in_one_envelope() -> None:
    body = CALLER.render_error(BadRequest("m", param="p", code="c"), "request-1")
    error = {"message": "m", "type": "invalid_request_error", "param": "p", "code": "c"}
    assert json.loads(body) == {"error": error}
    for name in ("chat", "responses"):
        assert CALLERS[name].render_error(BadRequest("m", param="p", code="c"), "r") == body


def test_models_are_a_list_without_pages() -> None:
    shown = {"id": "m", "object": "model", "created": 1, "owned_by": "us"}
    listed = CALLER.list_models([ListedModel("m", "us", 1, 2, 3)], {})
    assert listed == {"object": "list", "data": [shown]}


def test_headers_name_the_request_and_the_limits() -> None:
    assert CALLER.reply_headers("r") == {"x-request-id": "r"}
    assert CALLER.limit_headers([], 0) == {}


@each_row(
    ("seconds", "written"),
    [
        (-1, "0ms"),
        (0, "0ms"),
        (0.0124, "12ms"),
        (0.999, "999ms"),
        (0.9999, "1s"),
        (1, "1s"),
        (1.001, "2s"),
        (59.5, "1m0s"),
        (60, "1m0s"),
        (61.2, "1m2s"),
        (360, "6m0s"),
    ],
)
def test_durations_are_written_as_go_does(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written
