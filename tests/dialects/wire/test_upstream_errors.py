"""Upstream errors: every envelope is read, every status mapped, no caller is blamed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.wire.upstream_errors import (
    MAX_MESSAGE_CHARS,
    ErrorText,
    make_failure,
    map_status,
    read_error,
)
from gateway.errors import (
    BadRequest,
    GatewayError,
    ThreadNotFound,
    UpstreamError,
    UpstreamUnavailable,
)
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row


@each_row(
    ("body", "read"),
    [
        ({"error": {"message": "m", "type": "t", "param": "p", "code": "c"}}, ErrorText("m", "c", "p")),
        ({"error": {"message": "m", "type": "t", "param": None, "code": None}}, ErrorText("m", "t")),
        ({"error": {"code": 400, "message": "m", "metadata": {}}}, ErrorText("m")),
        ({"error": "just text"}, ErrorText("just text")),
        ([{"error": {"code": 429, "message": "m", "status": "X"}}], ErrorText("m")),
        ([], ErrorText()),
        ({"message": "flat", "code": "c"}, ErrorText("flat", "c")),
        ({"detail": "Not found"}, ErrorText("Not found")),
        ({"detail": [{"loc": ["body"], "msg": "one"}, {"msg": "two"}]}, ErrorText("one; two")),
        (
            {"object": "error", "message": {"detail": [{"msg": "m"}]}, "type": "t", "code": 1},
            ErrorText("m", "t"),
        ),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, ErrorText("m", "overloaded_error")),
        ({"error": {"message": "x" * 5000}}, ErrorText("x" * MAX_MESSAGE_CHARS)),
        ({"error": {"message": 7, "param": ["p"]}}, ErrorText()),
        ({}, ErrorText()),
        ("text", ErrorText()),
        (None, ErrorText()),
    ],
)  # fmt: skip
def test_every_envelope_seen_in_the_wild_is_read(body: Any, read: ErrorText) -> None:
    assert read_error(body) == read


def envelope(message: str = "said upstream", **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


@each_row("status", [400, 413, 422])
def test_a_rejection_is_the_callers_with_the_upstreams_words(status: int) -> None:
    error = map_status(status, envelope(code="context_length_exceeded", param="messages"), None)
    assert isinstance(error, BadRequest)
    assert (error.status, error.message, error.code, error.param) == (
        400,
        "said upstream",
        "context_length_exceeded",
        "messages",
    )


@each_row("body", [b"", b"<html>413</html>", b"\xff", b"{}"])
def test_a_rejection_without_words_gets_some(body: bytes) -> None:
    error = map_status(400, body, None)
    assert error.message
    assert b"<html>" not in error.message.encode()


@each_row(
    ("status", "ours", "code", "next_route", "alarm"),
    [
        (401, 502, "upstream_error", False, True),
        (402, 503, "upstream_unavailable", False, True),
        (403, 502, "upstream_error", False, True),
        (404, 502, "upstream_error", False, True),
        (405, 502, "upstream_error", False, False),
        (408, 502, "upstream_error", False, False),
        (409, 502, "upstream_error", False, False),
        (418, 502, "upstream_error", False, False),
        (429, 503, "upstream_unavailable", True, False),
        (500, 502, "upstream_error", True, False),
        (502, 502, "upstream_error", True, False),
        (503, 503, "upstream_unavailable", True, False),
        (504, 502, "upstream_error", True, False),
        (520, 502, "upstream_error", True, False),
        (529, 503, "upstream_unavailable", True, False),
        (204, 502, "upstream_error", False, False),
        (302, 502, "upstream_error", False, False),
    ],
)
def test_every_other_status_is_the_upstreams_fault(
    status: int, ours: int, code: str, *, next_route: bool, alarm: bool
) -> None:
    """Its text is withheld, as it may contain our key or details of our account."""
    error = map_status(status, envelope("sk-secret"), None)
    assert isinstance(error, UpstreamError)
    assert (error.status, error.code, error.next_route) == (ours, code, next_route)
    assert bool(error.alarm) is alarm
    assert "sk-secret" not in error.message
    assert "sk-secret" not in (error.alarm or "")


@each_row("code", ["insufficient_quota", "credit_balance_exhausted"])
def test_our_own_quota_spent_there_is_an_alarm(code: str) -> None:
    error = map_status(429, envelope(code=code), 1000.0)
    assert isinstance(error, UpstreamUnavailable)
    assert error.alarm
    assert error.next_route


@each_row(("told", "ours"), [(None, 1.0), (7.0, 7.0), (3600.0, 60.0)])
@each_row("status", [429, 503, 529])
def test_the_wait_told_upstream_is_handed_on_up_to_a_minute(
    status: int, told: float | None, ours: float
) -> None:
    assert map_status(status, b"", told).retry_after_seconds == ours


@fuzz(150)
@given(
    st.integers(100, 999),
    st.binary(max_size=40) | st.builds(lambda v: json.dumps(v).encode(), json_values),
)
def test_no_body_breaks_the_mapping(status: int, body: bytes) -> None:
    error = map_status(status, body, None)
    assert isinstance(error, GatewayError)
    assert (error.status == 400) == (status in {400, 413, 422})
    assert 0 < len(error.message) <= MAX_MESSAGE_CHARS


@each_row(
    "body",
    [
        b"[" * 1000 + b"]" * 1000,
        b'{"detail":' * 1000 + b'"x"' + b"}" * 1000,
        b'{"message":' + b"[" * 1000 + b"]" * 1000 + b"}",
    ],
)
def test_a_deeply_nested_body_is_no_fault_of_ours(body: bytes) -> None:
    assert map_status(500, body, None).status == 502


@each_row("status", [404, 409])
def test_a_conversation_that_is_not_held_is_the_callers_to_send(status: int) -> None:
    """Anthropic's tool runners replay it when they see the code; nobody is alarmed."""
    body = b'{"type":"error","error":{"type":"not_found_error","message":"no such thread",'
    body += b'"details":{"error_code":"thread_not_found"}}}'
    error = map_status(status, body, None)
    assert isinstance(error, ThreadNotFound)
    assert (error.message, error.detail_code) == ("no such thread", "thread_not_found")


@each_row(
    ("code", "kind", "told"),
    [
        ("rate_limit_exceeded", UpstreamUnavailable, "rate_limit_exceeded"),
        ("server_error", UpstreamError, "server_error"),
        ("insufficient_quota", UpstreamError, None),
        ("Bearer sk-1 is no key", UpstreamError, None),
        (None, UpstreamError, None),
    ],
)
def test_a_failure_within_a_reply_has_the_providers_word(
    code: str | None, kind: type[UpstreamError], told: str | None
) -> None:
    """But neither a text nor how our account there stands."""
    body = {"error": {"message": "m", "code": code}}
    failure = make_failure(body, {"rate_limit_exceeded"})
    assert (type(failure), failure.message, failure.provider_code) == (kind, "m", told)
    assert failure.code == kind.chat_code
