"""Checks of a request's fields that both dialects share, in the same words. No I/O.

Texts and codes are OpenAI's own where those are known (wire.md §2.1); the messages dialect has
the type and the text alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from gateway.errors import BadRequest

MAX_TOKENS_BOUND: Final = 2**32
"""No model comes near; beyond it a number is a typing error."""

Json = dict[str, Any]
Check = Callable[[str, Any], None]


def dump_request(value: Any) -> bytes:
    """Write JSON for the upstream. Raises BadRequest for what can be read but not written."""
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise BadRequest("The request body is nested too deeply.") from error


def read_object(data: bytes) -> Json:
    if not data.strip():
        raise BadRequest("The request body is empty; send a JSON object.")
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest(
            f"We could not parse the JSON body of your request: {error.msg} "
            f"(line {error.lineno}, column {error.colno})."
        ) from error
    if not isinstance(body, dict):
        raise BadRequest(f"The request body must be a JSON object, not {_kind(body)}.")
    return body


def check_string(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)


def check_boolean(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise wrong_type(name, "a boolean", value)


def check_integer(least: int, most: int) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong_type(name, "an integer", value)
        _check_range("integer", name, value, least, most)

    return check


def check_number(least: int, most: int) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise wrong_type(name, "a number", value)
        _check_range("decimal", name, value, least, most)

    return check


def _check_range(kind: str, name: str, value: float, least: int, most: int) -> None:
    if value < least:
        below, bound, sign = "below minimum", least, ">="
        code = f"{kind}_below_min_value"
    elif value > most:
        below, bound, sign = "above maximum", most, "<="
        code = f"{kind}_above_max_value"
    else:
        return
    raise BadRequest(
        f"Invalid '{name}': {kind} {below} value. Expected a value {sign} {bound}, "
        f"but got {value} instead.",
        param=name,
        code=code,
    )


def _kind(value: Any) -> str:
    return _KINDS[type(value)]


_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def wrong_type(name: str, expected: str, value: Any) -> BadRequest:
    return BadRequest(
        f"Invalid type for '{name}': expected {expected}, but got {_kind(value)} instead.",
        param=name,
        code="invalid_type",
    )


def missing(name: str) -> BadRequest:
    return BadRequest(
        f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter"
    )
