"""Refusals in a chat caller's words: what is malformed, and what a messages upstream cannot do. No I/O."""

from __future__ import annotations

from typing import Any

from gateway.dialects.checks import Json, missing, wrong_type
from gateway.errors import BadRequest


def unsupported_field(name: str) -> BadRequest:
    return BadRequest(
        f"Unsupported parameter: '{name}' cannot be carried over to this model's provider. "
        "Leave it out.",
        param=name,
        code="unsupported_parameter",
    )


def unsupported_value(name: str, why: str) -> BadRequest:
    """`why` is a sentence about this model's provider; it never quotes the value."""
    return BadRequest(f"Unsupported value: '{name}'. {why}", param=name, code="unsupported_value")


def expect_object(name: str, value: Any) -> Json:
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    return value


def expect_list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(name, "an array", value)
    return value


def expect_text(name: str, value: Any) -> str:
    """A string that says something. Raises BadRequest when it is missing, empty or none."""
    if value is None or value == "":
        raise missing(name)
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)
    return value
