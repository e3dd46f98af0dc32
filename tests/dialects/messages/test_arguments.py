"""Arguments of calls become objects, whatever a model wrote."""

from __future__ import annotations

from gateway.dialects.messages.history import read_arguments, read_input, wrap_arguments
from tests.support.rows import each_row


@each_row(
    ("arguments", "made"),
    [
        ('{"a":1}', {"a": 1}),
        ("", {}),
        (" \n", {}),
        ("[1]", {"arguments": [1]}),
        ("null", {"arguments": "null"}),
        ('{"a":', {"arguments": '{"a":'}),
        ('{"a":"\\ud800"}', {"arguments": '{"a":"\\ud800"}'}),
        ("[" * 500 + "]" * 500, {"arguments": "[" * 500 + "]" * 500}),
    ],
)
def test_an_input_is_an_object(arguments: str, made: object) -> None:
    assert read_input(arguments) == made


def test_what_is_no_json_is_none() -> None:
    assert (read_arguments('"a"'), read_arguments("a")) == ("a", None)
    assert (wrap_arguments({"a": 1}), wrap_arguments(7)) == ({"a": 1}, {"arguments": 7})
