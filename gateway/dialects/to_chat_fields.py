"""Reading a messages request for a chat upstream: typed access that names the field. No I/O.

Fields are named as the messages dialect's own errors name them: `messages.0.content.1.source`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Final

from gateway.errors import BadRequest

Json = dict[str, Any]


def refuse(where: str, reason: str) -> BadRequest:
    """The error for what cannot be carried over, or what is not as the dialect wants it."""
    return BadRequest(f"{where}: {reason}", param=where)


_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What a type or a field can be called; anything else is content and belongs in no error."""


def name_type(what: str, kind: object) -> str:
    """`what` with its type, if that is a word."""
    is_word = isinstance(kind, str) and _WORD.fullmatch(kind)
    return f"{what} of type '{kind}'" if is_word else f"{what} of this type"


def cannot_carry(where: str, what: str) -> BadRequest:
    return refuse(where, f"{what} cannot be carried over to this model's provider.")


def read_object(where: str, value: Any) -> Json:
    if not isinstance(value, dict):
        raise refuse(where, "must be an object.")
    return value


def read_list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise refuse(where, "must be an array.")
    return value


def read_text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refuse(where, "must be a string.")
    return value


def read_optional_text(where: str, value: Any) -> str:
    return "" if value is None else read_text(where, value)


def check_known(where: str, value: Json, known: Container[str]) -> None:
    """Refuse fields that nobody here knows: one dropped unseen might be one that matters."""
    prefix = f"{where}." if where else ""
    for name, given in value.items():
        if name not in known and not is_default(given):
            shown = name if _WORD.fullmatch(name) else "(a field)"
            raise cannot_carry(f"{prefix}{shown}", "this field")


def is_default(value: Any) -> bool:
    """Whether a field of this value asks for nothing: null, or empty."""
    return value is None or value in ([], {})
