"""Every error in both dialects: status, type, code and headers, written out in one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from gateway import errors as e
from gateway.dialects.exchanges import CALLERS
from tests.support.rows import each_row

REQUEST_ID = "req-1"
CHAT, MESSAGES = CALLERS["chat"], CALLERS["messages"]
INVALID = "invalid_request_error"
UNAVAILABLE = "service_unavailable_error"


@dataclass(frozen=True, slots=True)
class Row:
    make: Callable[[], e.GatewayError]
    status: int
    type: str
    code: str | None
    messages_type: str
    param: str | None = None
    retry_after: float | None = None
    should_retry: bool = True


M = "A plain text."
TABLE = (
    Row(lambda: e.BadRequest(M), 400, INVALID, None, INVALID),
    Row(lambda: e.BadRequest(M, param="n", code="invalid_type"), 400, INVALID, "invalid_type", INVALID, "n"),
    Row(lambda: e.ThreadNotFound(M), 404, INVALID, None, "not_found_error"),
    Row(lambda: e.UnknownModel("m"), 400, INVALID, "model_not_found", INVALID, "model"),
    Row(lambda: e.ModelNotFound("m"), 404, INVALID, "model_not_found", "not_found_error", "model"),
    Row(e.InvalidKey, 401, INVALID, "invalid_api_key", "authentication_error", should_retry=False),
    Row(lambda: e.InsufficientBalance(M), 402, "insufficient_quota", "insufficient_quota", "billing_error", should_retry=False),
    Row(lambda: e.BudgetSpent(M), 402, "insufficient_quota", "insufficient_quota", "billing_error", should_retry=False),
    Row(lambda: e.AccountSuspended(M), 403, INVALID, "account_suspended", "permission_error", should_retry=False),
    Row(lambda: e.ModelNotAllowed("m"), 403, INVALID, "model_not_allowed", "permission_error", "model", should_retry=False),
    Row(lambda: e.NotFound(M), 404, INVALID, "unknown_url", "not_found_error"),
    Row(lambda: e.MethodNotAllowed(M, allow="GET"), 405, INVALID, "method_not_allowed", INVALID),
    Row(lambda: e.BodyTimeout(M), 408, INVALID, "request_timeout", INVALID),
    Row(lambda: e.BodyTooLarge(M), 413, INVALID, "request_too_large", "request_too_large"),
    Row(lambda: e.UnsupportedMediaType(M), 415, INVALID, "unsupported_media_type", INVALID),
    Row(lambda: e.RateLimited(M), 429, "requests", "rate_limit_exceeded", "rate_limit_error", retry_after=1),
    Row(
        lambda: e.RateLimited(M, kind="tokens", retry_after_seconds=99),
        429, "tokens", "rate_limit_exceeded", "rate_limit_error", retry_after=60,
    ),
    Row(lambda: e.BalanceHeld(M), 429, "requests", "rate_limit_exceeded", "rate_limit_error", retry_after=1),
    Row(lambda: e.UpstreamError(M), 502, "server_error", "upstream_error", "api_error"),
    Row(lambda: e.UndeliverableReply(M), 502, "server_error", "upstream_error", "api_error", should_retry=False),
    Row(lambda: e.UpstreamTimeout(M), 502, "server_error", "upstream_timeout", "api_error", should_retry=False),
    Row(lambda: e.UpstreamUnavailable(M), 503, UNAVAILABLE, "upstream_unavailable", "overloaded_error", retry_after=1),
    Row(
        lambda: e.UpstreamUnavailable(M, retry_after_seconds=7),
        503, UNAVAILABLE, "upstream_unavailable", "overloaded_error", retry_after=7,
    ),
    Row(lambda: e.Overloaded(M), 503, UNAVAILABLE, "server_is_overloaded", "overloaded_error", retry_after=1),
    Row(lambda: e.OutOfResources(M), 503, UNAVAILABLE, "server_is_overloaded", "overloaded_error", retry_after=1),
    Row(e.LedgerUnavailable, 503, UNAVAILABLE, "server_is_overloaded", "overloaded_error", retry_after=1),
    Row(
        lambda: e.LedgerUnavailable(should_retry=False),
        503, UNAVAILABLE, "server_is_overloaded", "overloaded_error", retry_after=1, should_retry=False,
    ),
    Row(e.InternalError, 500, "server_error", "internal_error", "api_error"),
)  # fmt: skip
FAMILIES = {e.CallerError, e.AccountError, e.GatewayFault}
"""Base classes that say who is to blame and are never raised."""


def subclasses_of(cls: type[e.GatewayError]) -> set[type[e.GatewayError]]:
    below = {sub for sub in cls.__subclasses__() if sub.__module__.startswith("gateway.")}
    return below.union(*(subclasses_of(sub) for sub in below))


def read_event(event: bytes, name: bytes) -> Any:
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2 + name.count(b"\n")
    assert event.startswith(name + b"data: {")
    return json.loads(event.removeprefix(name).removeprefix(b"data: "))


def test_the_table_has_every_error() -> None:
    assert {type(row.make()) for row in TABLE} | FAMILIES == subclasses_of(e.GatewayError)


@each_row("row", TABLE)
def test_each_error_is_told_in_both_dialects_as_the_sdks_read_it(row: Row) -> None:
    """All keys are in the body and in the event; the message has nothing private."""
    error = row.make()
    hints = (error.status, error.retry_after_seconds, error.should_retry)
    assert hints == (row.status, row.retry_after, row.should_retry)
    assert (row.status in {429, 503}) == (row.retry_after is not None)
    assert error.message

    said = {"message": error.message, "type": row.type, "param": row.param, "code": row.code}
    body = CHAT.render_error(error, REQUEST_ID)
    assert json.loads(body) == {"error": said}
    event = CHAT.render_error_event(error, REQUEST_ID, None, {})
    assert read_event(event, b"") == {"error": said}
    with pytest.raises(openai.APIStatusError) as raised:
        openai.OpenAI(**answering(row.status, body)).models.list()
    told = raised.value
    assert (told.status_code, told.type, told.code) == (row.status, row.type, row.code)
    assert (told.param, error.message in told.message) == (row.param, True)

    whole = {
        "type": "error",
        "error": {"type": row.messages_type, "message": error.message},
        "request_id": REQUEST_ID,
    }
    body = MESSAGES.render_error(error, REQUEST_ID)
    assert json.loads(body) == whole
    event = MESSAGES.render_error_event(error, REQUEST_ID, None, {})
    assert read_event(event, b"event: error\n") == whole
    with pytest.raises(anthropic.APIStatusError) as refused:
        anthropic.Anthropic(**answering(row.status, body)).models.list()
    assert (refused.value.status_code, refused.value.type) == (row.status, row.messages_type)
    assert refused.value.body == whole


def answering(status: int, body: bytes) -> dict[str, Any]:
    """Make the parameters of an SDK's client that gets this reply, without a network."""
    reply = httpx2.Response(status, content=body, headers={"content-type": "application/json"})
    return {
        "api_key": "unused",
        "base_url": "http://gateway.test",
        "max_retries": 0,
        "http_client": httpx2.Client(transport=httpx2.MockTransport(lambda _: reply)),
    }


def test_request_ids_go_out_under_the_names_the_sdks_read() -> None:
    assert CHAT.reply_headers("r") == {"x-request-id": "r"}
    assert MESSAGES.reply_headers("r") == {"x-request-id": "r", "request-id": "r"}


@each_row(("asked", "told"), [(-3, 0), (0, 0), (59.5, 59.5), (60, 60), (1e9, 60)])
def test_waits_are_between_zero_and_a_minute(asked: float, told: float) -> None:
    """SDKs obey longer waits, or give up."""
    assert e.UpstreamUnavailable(M, retry_after_seconds=asked).retry_after_seconds == told


def test_all_bad_keys_get_one_text() -> None:
    """It begins with OpenAI's words, by which LiteLLM tells a wrong key from a bad request."""
    assert e.InvalidKey().message.startswith("Incorrect API key provided.")
    assert "sk-ru-..." in e.InvalidKey().message


@each_row("make", [e.UnknownModel, e.ModelNotFound])
def test_a_long_model_name_is_not_echoed_whole(make: Callable[[str], e.GatewayError]) -> None:
    assert len(make("m" * 10_000).message) < 300


def test_a_text_with_quotes_and_newlines_stays_one_event() -> None:
    error = e.BadRequest('a "quoted"\n\ndata: [DONE]\r\n\r\ntext')
    assert read_event(CHAT.render_error_event(error, REQUEST_ID, None, {}), b"")
    assert read_event(MESSAGES.render_error_event(error, REQUEST_ID, None, {}), b"event: error\n")


def test_a_method_not_allowed_names_what_is() -> None:
    assert e.MethodNotAllowed(M, allow="GET, HEAD").allow == "GET, HEAD"


@each_row("next_route", [False, True])
def test_an_upstream_error_says_whether_another_route_may_be_tried(*, next_route: bool) -> None:
    error = e.UpstreamError(M, next_route=next_route, alarm="mend it")
    assert (error.next_route, error.alarm) == (next_route, "mend it")
    assert "mend it" not in CHAT.render_error(error, REQUEST_ID).decode()
