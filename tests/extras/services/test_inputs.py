"""The texts of a request that is not a conversation."""

from __future__ import annotations

import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import Inputs
from gateway.extras.services.inputs import MAX_INPUTS, read_inputs
from tests.support.rows import each_row


@each_row(
    ("value", "count", "tokens"),
    [
        ("abcd" * 10, 1, 10),
        ([1, 2, 3], 1, 3),
        ([[1], [2, 3]], 2, 3),
        (["abcd" * 10, "abcd" * 10], 2, 20),
        (["a"] * MAX_INPUTS, MAX_INPUTS, MAX_INPUTS),
    ],
)
def test_texts_are_estimated_and_tokens_counted(value: object, count: int, tokens: int) -> None:
    assert read_inputs("input", value) == Inputs(count, tokens)


@each_row(
    ("value", "param", "code"),
    [
        (7, "input", "invalid_type"),
        ("", "input", "empty_string"),
        ([], "input", "empty_array"),
        (["a", 1], "input[1]", "invalid_type"),
        (["a", ""], "input[1]", "empty_string"),
        ([1, "a"], "input[1]", "invalid_type"),
        ([[1], []], "input[1]", "empty_array"),
        (["a"] * (MAX_INPUTS + 1), "input", "array_above_max_length"),
    ],
)
def test_what_is_no_text_is_named(value: object, param: str, code: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_inputs("input", value)
    assert (refused.value.param, refused.value.code) == (param, code)


def test_an_editor_may_send_an_empty_text() -> None:
    assert read_inputs("prompt", "", may_be_empty=True) == Inputs(1, 0)
