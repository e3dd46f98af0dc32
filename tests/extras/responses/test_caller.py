"""Errors of Responses callers, and their events. `requests` has what they ask for."""

from __future__ import annotations

import json
from typing import Final

from openai.types.responses import ResponseFailedEvent

from gateway.base.errors import (
    BadRequest,
    GatewayError,
    InsufficientBalance,
    InternalError,
    Overloaded,
    UndeliverableReply,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.base.money import Tokens
from gateway.dialects.wire.records import ReplyUsage
from gateway.extras.responses.caller import ResponsesCaller
from tests.dialects.chat.kit import Json
from tests.extras.responses.kit import read_events
from tests.support.rows import each_row

CALLER = ResponsesCaller()


def name_code(error: UpstreamError, code: str) -> UpstreamError:
    """Add the code of a provider's error in its stream."""
    error.provider_code = code
    return error


CODEX: Final = (
    {"user-agent": "codex_exec/0.149.0 (Debian 13; x86_64)"},
    {"originator": "Codex Desktop"},
)
OTHERS: Final[tuple[Json, ...]] = (
    {},
    {"user-agent": "OpenAI/Python 3.54.0", "originator": "not codex"},
)
FAILURES: Final[list[tuple[GatewayError, str, str, str]]] = [
    # error, the code for others, for Codex before the output, and for Codex after it
    (InsufficientBalance("m"), "insufficient_quota", "insufficient_quota", "insufficient_quota"),
    (Overloaded("m"), "server_is_overloaded", "server_is_overloaded", "server_is_overloaded"),
    (UpstreamError("m"), "server_error", "server_error", "invalid_prompt"),
    (UpstreamTimeout("m"), "server_error", "server_error", "invalid_prompt"),
    (UpstreamUnavailable("m"), "server_error", "server_error", "invalid_prompt"),
    (InternalError(), "server_error", "server_error", "invalid_prompt"),
    (UndeliverableReply("m"), "server_error", "invalid_prompt", "invalid_prompt"),
    (BadRequest("m"), "invalid_prompt", "invalid_prompt", "invalid_prompt"),
    (BadRequest("m", code="x"), "x", "x", "invalid_prompt"),
    (BadRequest("m", code="content_filter"), "invalid_prompt", "invalid_prompt", "invalid_prompt"),
    (
        BadRequest("m", code="context_length_exceeded"),
        "context_length_exceeded",
        "context_length_exceeded",
        "context_length_exceeded",
    ),
    (
        name_code(UpstreamUnavailable("m"), "rate_limit_exceeded"),
        "rate_limit_exceeded",
        "server_error",
        "invalid_prompt",
    ),
]


@each_row(("error", "other", "before", "after"), FAILURES)
def test_the_code_of_a_failure_steers_the_client(
    error: GatewayError, other: str, before: str, after: str
) -> None:
    """Codex sends the whole turn again on nearly any code; once it is charged, it must not."""
    for number, codex in ((2, before), (3, after)):
        for clients, code in ((OTHERS, other), (CODEX, codex)):
            for headers in clients:
                assert fail(error, {"sequence_number": number}, headers)["error"]["code"] == code


def fail(error: GatewayError, position: Json, headers: Json | None = None) -> Json:
    """Return the response that failed where a stream stands."""
    where = {"response": {"id": "resp_7"}, **position}
    data = CALLER.render_error_event(error, "request-1", where, headers or {})
    event = json.loads(data.partition(b"data: ")[2])
    assert event["sequence_number"] == where["sequence_number"]
    response: Json = event["response"]
    return response


def test_a_failed_response_has_the_usage_that_is_known() -> None:
    """The provider's own as it stands in the stream, or what a translated one is charged for."""
    told = {"input_tokens": 5, "output_tokens": 3}
    told_in = {"response": {"id": "resp_7", "usage": told}, "sequence_number": 4}
    assert fail(UpstreamError("m"), told_in)["usage"] == told
    charged = ReplyUsage(Tokens(5, 4, 1, 3), estimated=True, reported=None)
    usage = fail(UpstreamError("m"), {"sequence_number": 4, "usage": charged})["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 3, 13)
    assert "usage" not in fail(UpstreamError("m"), {"sequence_number": 4})


def test_an_error_before_any_event_is_a_stream_of_its_own() -> None:
    data = CALLER.render_error_event(UpstreamError("m"), "request-1", None, {})
    created, failed = read_events(data)
    assert (created["type"], failed["type"]) == ("response.created", "response.failed")
    assert created["response"]["id"] == failed["response"]["id"] == "resp_request-1"
    assert failed["response"]["error"] == {"code": "server_error", "message": "m"}
    assert failed["response"]["status"] == "failed"
    ResponseFailedEvent.model_validate(failed, strict=True)
