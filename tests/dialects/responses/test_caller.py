"""Requests of Responses callers: what is refused and in which words; errors and their events."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from openai.types.responses import ResponseFailedEvent

from gateway.dialects.responses.caller import ResponsesCaller, choose_code
from gateway.dialects.wire.fields import MAX_TOKENS_BOUND
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
from tests.dialects.responses.kit import Json, read_events

CALLER = ResponsesCaller()
USER = {"role": "user", "content": "Hi"}
STATE = "keeps no state: send the whole conversation as 'input', with 'store: false'"
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"input": [USER, {"type": "item_reference", "id": "msg_1"}]}, "input[1]"),
        ({"input": [{"id": "msg_1"}]}, "input[0]"),
    ],
)
def test_what_refers_to_state_is_refused_and_told_what_to_send(fields: Json, param: str) -> None:
    refusal = refuse(**fields)
    assert (refusal.status, refusal.param, refusal.code) == (400, param, "unsupported_parameter")
    assert STATE in refusal.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 1}, "model"),
        ({"input": None}, "input"),
        ({"input": 1}, "input"),
        ({"input": []}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{}]}, "input[0].role"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": 1, "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": 1}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": ["x"]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": 1}]}, "input[0].type"),
        ({"input": [{"type": "function_call_output", "output": 1}]}, "input[0].output"),
        ({"input": [{**USER, "content": [{"type": "input_image", "file_id": "f"}]}]}, "input[0].content[0].file_id"),
        ({"stream": "yes"}, "stream"),
        ({"store": "no"}, "store"),
        ({"instructions": []}, "instructions"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"max_output_tokens": MAX_TOKENS_BOUND + 1}, "max_output_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"tools": {}}, "tools"),
        ({"include": "x"}, "include"),
        ({"text": "x"}, "text"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused_by_name(fields: Json, param: str) -> None:
    assert refuse(**fields).param == param


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InsufficientBalance("m"), "insufficient_quota"),
        (Overloaded("m"), "server_is_overloaded"),
        (UpstreamError("m"), "server_error"),
        (UpstreamTimeout("m"), "server_error"),
        (UpstreamUnavailable("m"), "server_error"),
        (InternalError(), "server_error"),
        (UndeliverableReply("m"), "invalid_prompt"),
        (BadRequest("m"), "invalid_prompt"),
        (BadRequest("m", code="context_length_exceeded"), "context_length_exceeded"),
    ],
)
def test_the_code_of_a_failure_steers_the_client(error: GatewayError, code: str) -> None:
    assert choose_code(error) == code


def test_a_word_that_the_reader_let_through_is_passed_on() -> None:
    error = UpstreamError("m")
    error.code = "context_length_exceeded"
    assert choose_code(error) == "context_length_exceeded"


def test_an_error_before_any_event_is_a_stream_of_its_own() -> None:
    created, failed = read_events(CALLER.render_error_event(UpstreamError("m"), "request-1", None))
    assert (created["type"], failed["type"]) == ("response.created", "response.failed")
    assert created["response"]["id"] == failed["response"]["id"] == "resp_request-1"
    assert failed["response"]["error"] == {"code": "server_error", "message": "m"}
    assert failed["response"]["status"] == "failed"
    ResponseFailedEvent.model_validate(failed, strict=True)


def test_an_error_continues_the_stream_where_it_stands() -> None:
    position = {"response": {"id": "resp_7", "model": "our/model"}, "sequence_number": 0}
    [failed] = read_events(CALLER.render_error_event(UpstreamError("m"), "request-1", position))
    response = failed["response"]
    assert (response["id"], response["model"], response["status"]) == (
        "resp_7",
        "our/model",
        "failed",
    )


@pytest.mark.parametrize(
    ("error", "number", "code"),
    [
        (UpstreamError("m"), 2, "server_error"),
        (UpstreamError("m"), 3, "invalid_prompt"),
        (Overloaded("m"), 3, "server_is_overloaded"),
        (InsufficientBalance("m"), 3, "insufficient_quota"),
    ],
)
def test_no_turn_is_sent_again_once_output_was_delivered(
    error: GatewayError, number: int, code: str
) -> None:
    position = {"response": {"id": "resp_7"}, "sequence_number": number}
    data = CALLER.render_error_event(error, "request-1", position)
    failed = json.loads(data.partition(b"data: ")[2])
    assert (failed["sequence_number"], failed["response"]["error"]["code"]) == (number, code)
