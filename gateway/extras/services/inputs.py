"""Checks and counts the texts of a request that is not a conversation."""

from __future__ import annotations

from typing import Final, cast

from gateway.base.errors import BadRequest
from gateway.base.usage import count_text, estimate_tokens
from gateway.dialects.wire import fields
from gateway.dialects.wire.records import Inputs

MAX_INPUTS: Final = 2048
"""Texts of a request: OpenAI's own limit."""


def read_inputs(name: str, value: object, *, may_be_empty: bool = False) -> Inputs:
    """Check a text, an array of texts, an array of tokens, or an array of such arrays."""
    if type(value) is str:
        return Inputs(1, _count_tokens(name, value, may_be_empty=may_be_empty))
    if type(value) is not list:
        raise fields.wrong_type(name, "a string or an array", value)
    if value and type(value[0]) is int:
        return Inputs(1, _count_tokens(name, value, may_be_empty=may_be_empty))
    if not value:
        raise fields.empty("array", name)
    if len(value) > MAX_INPUTS:
        raise too_long(name, MAX_INPUTS, len(value))
    kind = str if type(value[0]) is str else list
    tokens = 0
    for index, item in enumerate(value):
        if type(item) is not kind:
            expected = "a string" if kind is str else "an array of integers"
            raise fields.wrong_type(f"{name}[{index}]", expected, item)
        if kind is str and item:  # names are made only for errors: there may be 2,000 texts
            tokens += estimate_tokens(count_text(item))
        else:
            tokens += _count_tokens(f"{name}[{index}]", item, may_be_empty=may_be_empty)
    return Inputs(len(value), tokens)


def too_long(name: str, most: int, length: int) -> BadRequest:
    """Make the error for an array of too many items."""
    return BadRequest(
        f"Invalid '{name}': array too long. Expected an array with maximum length {most}, "
        f"but got an array with length {length} instead.",
        param=name,
        code="array_above_max_length",
    )


def _count_tokens(name: str, item: str | list[object], *, may_be_empty: bool) -> int:
    """Estimate the tokens of a text, or count those of an array."""
    if not item and not may_be_empty:
        raise fields.empty("string" if isinstance(item, str) else "array", name)
    if isinstance(item, str):
        return estimate_tokens(count_text(item))
    # `map` loops in C, as an input may have thousands of tokens.
    if item and set(map(type, item)) != {int}:
        index = next(index for index, one in enumerate(item) if type(one) is not int)
        raise fields.wrong_type(f"{name}[{index}]", "an integer", item[index])
    return len(item)


def refuse_stream(why: str) -> fields.Check:
    """Make the check of `stream` for APIs without streams."""

    def check(name: str, value: object) -> None:
        fields.check_boolean(name, value)
        if value:
            raise fields.Field(value, name).refuse(why)

    return check


def list_inputs(value: str | list[object]) -> list[str | list[int]]:
    """Return the inputs of a request that may have one or several, as texts or as tokens."""
    is_one = isinstance(value, str) or isinstance(value[0], int)
    return cast("list[str | list[int]]", [value] if is_one else value)


def count_words(text: str | list[int]) -> int:
    """Count as the embedded provider does: words, or the tokens that the caller made."""
    return (len(text.split()) or 1) if isinstance(text, str) else len(text)
