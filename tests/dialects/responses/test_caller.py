"""Requests of Responses callers: what is refused and in which words; errors and their events."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
import pytest
from openai.types.responses import ResponseFailedEvent

from gateway.dialects.records import ReplyUsage
from gateway.dialects.responses.caller import ResponsesCaller
from gateway.errors import (
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
from gateway.money import Tokens
from tests.dialects.responses.kit import Json, read_events
from tests.support.rows import each_row

CALLER = ResponsesCaller()
USER = {"role": "user", "content": "Hi"}
PNG = "data:image/png;base64,AAAA"


def parse(**fields: Any) -> Any:
    return CALLER.parse_request(orjson.dumps({"model": "m", "input": "Hi", **fields}))


def refuse(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse(**fields)
    return caught.value


def test_what_the_gateway_has_to_know_is_read() -> None:
    request = parse(stream=True, max_output_tokens=9)
    assert (request.model, request.stream, request.max_tokens) == ("m", True, 9)
    assert (request.n, request.wants_usage) == (1, True)
    assert parse(max_output_tokens=None).max_tokens is None


@each_row(
    "fields",
    [
        {"store": False, "previous_response_id": None, "conversation": None, "background": False},
        {"prompt": None, "truncation": "disabled", "include": ["reasoning.encrypted_content"]},
        {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "client_metadata": {}},
        {"tools": [{"type": "web_search"}, {"type": "namespace"}], "top_logprobs": 0},
        {"stream_options": {"include_obfuscation": False}, "metadata": {}, "what_comes": 1},
        {"input": [USER, {**USER, "type": "message"}, {"role": "assistant", "content": []}]},
        {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]},
        {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
        {"input": [{"type": "shell_call_output", "output": [{"stdout": "", "outcome": {}}]}]},
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]},
        {"input": [{"type": "compaction_trigger"}, {"type": "additional_tools", "tools": []}]},
    ],
)  # fmt: skip
def test_what_clients_send_is_taken(fields: Json) -> None:
    assert parse(**fields).body == {"model": "m", "input": "Hi", **fields}


@each_row("kind", [{"type": "item_reference"}, {}])
def test_a_reference_is_refused_and_the_setting_named_that_sends_items(kind: Json) -> None:
    refusal = refuse(input=[USER, {"id": "msg_1", **kind}])
    assert (refusal.param, refusal.code) == ("input[1]", "unsupported_parameter")
    assert "`providerOptions.openai.store: false`" in refusal.message
    assert refusal.message.startswith("Unsupported parameter: 'input[1]' refers to an item")


@each_row(
    ("part", "chars", "tokens"),
    [
        ({"type": "input_image", "image_url": PNG}, 4, 1600),
        ({"type": "input_image", "image_url": "https://x/y.png"}, 0, 1600),
        ({"type": "input_file", "file_url": "https://x/y.pdf"}, 0, 20_000),
        ({"type": "input_file", "file_data": "data:application/pdf;base64,AAAA"}, 4, 1500),
        ({"type": "input_file", "file_data": "AAAA"}, 4, 1500),
        ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, 4, 1500),
        ({"type": "input_text", "text": "x"}, 0, 0),
    ],
)
def test_files_are_counted_in_messages_and_in_outputs(part: Json, chars: int, tokens: int) -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": [part]}
    request = parse(input=[{"role": "user", "content": [part]}, output])
    assert (request.base64_chars, request.file_tokens) == (2 * chars, 2 * tokens)


def test_pictures_made_earlier_are_counted() -> None:
    shot = {"type": "computer_screenshot", "image_url": PNG}
    items = [
        {"type": "image_generation_call", "id": "ig", "result": "AAAA"},
        {"type": "computer_call_output", "call_id": "c", "output": shot},
    ]
    request = parse(input=items)
    assert (request.base64_chars, request.file_tokens) == (8, 3200)


def name_code(error: UpstreamError, code: str) -> UpstreamError:
    """Add the code of a provider's error in its stream."""
    error.provider_code = code
    return error


def find_fault(code: str) -> UpstreamError:
    """Make the error for a code that the reader lets through, as it finds fault with the request."""
    error = name_code(UpstreamError("m"), code)
    error.code = code
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
    (
        find_fault("context_length_exceeded"),
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


def test_an_error_continues_the_stream_where_it_stands() -> None:
    position = {"response": {"id": "resp_7", "model": "our/model"}, "sequence_number": 0}
    response = fail(UpstreamError("m"), position)
    assert (response["id"], response["model"], response["status"]) == (
        "resp_7",
        "our/model",
        "failed",
    )
