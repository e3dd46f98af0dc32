"""Requests for embeddings: what is accepted, what a refusal names, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from gateway.dialects.embeddings import MAX_DIMENSIONS, MAX_INPUTS
from gateway.dialects.exchanges import CALLERS, EMBEDDINGS
from gateway.dialects.records import Inputs
from gateway.errors import BadRequest, InvalidKey
from tests.dialects.chat.kit import dump
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

CALLER = EMBEDDINGS.caller


@each_row(
    ("value", "count", "tokens"),
    [
        ("a", 1, 1),
        ("four", 1, 1),
        ("four!", 1, 2),
        ("ééé", 1, 2),
        (["a", "b", "c"], 3, 3),
        (["four", "four!"], 2, 3),
        ([1, 2, 3], 1, 3),
        ([1] * (MAX_INPUTS + 1), 1, MAX_INPUTS + 1),
        ([[1, 2], [3]], 2, 3),
        (["x"] * MAX_INPUTS, MAX_INPUTS, MAX_INPUTS),
    ],
)
def test_inputs_are_counted(value: Any, count: int, tokens: int) -> None:
    """Texts at four bytes per token, each at least one; tokens exactly."""
    request = CALLER.parse_request(dump({"model": "m", "input": value}))
    assert request.inputs == Inputs(count, tokens)
    assert (request.model, request.stream, request.kind) == ("m", False, "embedding")


def test_what_the_gateway_does_not_know_passes() -> None:
    body = {
        "model": "m", "input": "a", "input_type": "query", "dimensions": MAX_DIMENSIONS,
        "encoding_format": "base64", "user": "u", "stream": False, "vendor": {"x": None},
    }  # fmt: skip
    assert CALLER.parse_request(dump(body)).body == body
    nulls = {"model": "m", "input": "a", "dimensions": None, "encoding_format": None}
    assert CALLER.parse_request(dump(nulls)).body == nulls


@each_row(
    ("fields", "param", "code"),
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": 1}, "model", "invalid_type"),
        ({"input": None}, "input", "missing_required_parameter"),
        ({"input": ""}, "input", "empty_string"),
        ({"input": []}, "input", "empty_array"),
        ({"input": 1}, "input", "invalid_type"),
        ({"input": {"text": "a"}}, "input", "invalid_type"),
        ({"input": ["a", ""]}, "input[1]", "empty_string"),
        ({"input": ["a", 1]}, "input[1]", "invalid_type"),
        ({"input": [1, "a"]}, "input[1]", "invalid_type"),
        ({"input": [1, True]}, "input[1]", "invalid_type"),
        ({"input": [True]}, "input[0]", "invalid_type"),
        ({"input": [None]}, "input[0]", "invalid_type"),
        ({"input": [[1], []]}, "input[1]", "empty_array"),
        ({"input": [[1], "a"]}, "input[1]", "invalid_type"),
        ({"input": [[1], [2, "a"]]}, "input[1][1]", "invalid_type"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input", "array_above_max_length"),
        ({"dimensions": 0}, "dimensions", "integer_below_min_value"),
        ({"dimensions": MAX_DIMENSIONS + 1}, "dimensions", "integer_above_max_value"),
        ({"dimensions": 1.5}, "dimensions", "invalid_type"),
        ({"encoding_format": "int8"}, "encoding_format", "invalid_value"),
        ({"encoding_format": 1}, "encoding_format", "invalid_type"),
        ({"user": 1}, "user", "invalid_type"),
        ({"stream": True}, "stream", "unsupported_value"),
        ({"stream": 1}, "stream", "invalid_type"),
    ],
)
def test_a_refusal_names_the_field(fields: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(BadRequest) as caught:
        CALLER.parse_request(dump({"model": "m", "input": "a"} | fields))
    assert (caught.value.param, caught.value.code) == (param, code)
    assert f"'{param}'" in caught.value.message


def test_errors_and_headers_are_those_of_chat() -> None:
    chat, error = CALLERS["chat"], InvalidKey()
    assert CALLER.render_error(error, "req_1") == chat.render_error(error, "req_1")
    assert CALLER.reply_headers("req_1") == chat.reply_headers("req_1")
    assert CALLER.limit_headers([], 0) == chat.limit_headers([], 0)


@fuzz(200)
@given(json_values)
def test_any_input_is_counted_or_refused(value: object) -> None:
    try:
        request = CALLER.parse_request(dump({"model": "m", "input": value}))
    except BadRequest:
        return
    assert request.inputs is not None
    assert request.inputs.tokens >= request.inputs.count >= 1
