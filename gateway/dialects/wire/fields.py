"""Fields of a request: checks of single ones, and typed access that names the field in its errors.

Texts and codes are OpenAI's, where known (API reference, "Error codes"). A dialect with other names and
texts derives its own `Field`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

import orjson

from gateway.base.errors import BadRequest
from gateway.dialects.wire.names import Names, refuse_spelling
from gateway.dialects.wire.records import Json

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.+)", re.IGNORECASE | re.DOTALL)


def is_link(url: str) -> bool:
    return url[:8].lower() == "https://"


def split_data_url(url: str) -> tuple[str, str]:
    """Return the media type, in lower case, and the base64 of a data URL; both are "" for any other URL."""
    found = _DATA_URL.fullmatch(url)
    return (found[1].strip().lower(), found[2]) if found else ("", "")


def maybe_read_text(url: str) -> str | None:
    """Return the content of a data URL that is a text; None for any other URL."""
    media_type, data = split_data_url(url)
    if not media_type.startswith("text/"):
        return None
    try:
        # Without `validate`, characters that are no base64 would be dropped silently.
        return b64decode(data, validate=True).decode()
    except ValueError:
        return None


MAX_TOKENS_BOUND: Final = 2**32
"""Tokens of the largest limit accepted: no model comes near it, so a larger one is a typing error."""

Check = Callable[[str, Any], None]


class Fields(Names):
    """The fields of a request, with the checks of their values and of the names within them."""

    __slots__ = ("_item", "checks")

    def __init__(
        self,
        checks: Mapping[str, Check],
        known: Iterable[str] = (),
        inner: Mapping[str, Names] = MappingProxyType({}),
        item: str = "[{}]",
    ) -> None:
        """`known` have no checks; `item` is how errors name an item of an array."""
        super().__init__((*checks, *known), inner)
        self.checks: dict[str, Check | None] = {**dict.fromkeys(self.known), **checks}
        self._item = item

    def check_body(self, body: Json) -> None:
        """Check the fields of a request; null means absent. Raises BadRequest."""
        for name, value in body.items():
            if name not in self.known:
                # Null is checked here, too: under another spelling it may unset a limit that was read.
                if (meant := self.maybe_meant(name)) is not None:
                    raise refuse_spelling(name, meant)
            elif value is not None:
                if (check := self.checks[name]) is not None:
                    check(name, value)
                if name in self.inner:
                    self.inner[name].check(name, value, self._item)


def read_body(data: bytes, fields: Fields, required: Collection[str]) -> Json:
    """Parse a request's body and check its fields; null means absent. Raises BadRequest."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if not data.strip():
            raise BadRequest("The request body is empty; send a JSON object.") from error
        raise BadRequest(
            f"We could not parse the JSON body of your request: {error.msg} "
            f"(line {error.lineno}, column {error.colno})."
        ) from error
    if type(body) is not dict:
        raise BadRequest(f"The request body must be a JSON object, not {_KINDS[type(body)]}.")
    fields.check_body(body)
    for name in required:
        if body.get(name) is None:
            other, path = _CONVERSATIONS.get(name, ("", ""))
            where = f" To send '{other}', use {path}." if other in body else ""
            raise missing(name, where)
    return body


_CONVERSATIONS: Final = {
    "messages": ("input", "POST /v1/responses"),
    "input": ("messages", "POST /v1/chat/completions or /v1/messages"),
}
"""The fields of a conversation: the field of the other API, and the path of that API."""


def dump_request(value: object) -> bytes:
    """Write JSON for the upstream. Raises BadRequest for values that can be read but not written."""
    try:
        return orjson.dumps(value)
    # orjson reads 1,024 levels and writes 254; its error is a TypeError.
    except TypeError as error:
        raise too_deep() from error


def too_deep() -> BadRequest:
    return BadRequest("The request body is nested too deeply.")


class Field:
    """A value in a request and its name in errors: `messages[0].content`.

    The methods `read_…` raise BadRequest for a value of another type. So does access to a member of a
    value that is no object.
    """

    __slots__ = ("_key", "_parent", "value")

    def __init__(self, value: Any, key: str | int = "", parent: Self | None = None) -> None:
        self.value = value
        self._key = key
        self._parent = parent

    @property
    def name(self) -> str:
        """The name in errors. It is computed on demand, as most of the many fields are valid."""
        outer = self._parent.name if self._parent is not None else ""
        if isinstance(self._key, int):
            return self.name_item(outer, self._key)
        return f"{outer}.{self._key}" if outer else self._key

    def __getitem__(self, key: str) -> Self:
        """Return the member of an object; its value is None if it is absent."""
        return self.__class__(self.get(key), key, self)

    def get(self, key: str) -> Any:
        """Return the value of a member, if its name in errors is not needed."""
        if type(self.value) is not dict:
            raise self.wrong_type("an object")
        return self.value.get(key)

    def replace(self, value: Any) -> Self:
        """Return another value under the same name."""
        return self.__class__(value, self._key, self._parent)

    def read_object(self) -> Json:
        if type(self.value) is not dict:
            raise self.wrong_type("an object")
        return self.value

    def read_items(self) -> list[Self]:
        """Return the items of an array."""
        if type(self.value) is not list:
            raise self.wrong_type("an array")
        kind = self.__class__
        return [kind(item, index, self) for index, item in enumerate(self.value)]

    def read_string(self) -> str:
        if type(self.value) is not str:
            raise self.wrong_type("a string")
        return self.value

    def read_text(self) -> str:
        """Return a string, which must be present and not empty."""
        if self.value is None or self.value == "":
            raise missing(self.name)
        return self.read_string()

    def check_fields(
        self, known: Container[str], refused: Mapping[str, tuple[object, ...]]
    ) -> None:
        """Check the fields of a request against a translation's tables.

        `refused` lists the values without effect; other values raise BadRequest.
        """
        for name, value in self.read_object().items():
            if name not in known and value not in refused.get(name, ()):
                raise self[name].refuse_field()

    def name_item(self, outer: str, index: int) -> str:
        return f"{outer}[{index}]"

    def wrong_type(self, expected: str) -> BadRequest:
        return wrong_type(self.name, expected, self.value)

    def refuse(self, reason: str) -> BadRequest:
        """Return the error for a value that the upstream cannot take. `reason` never quotes the value."""
        text = f"Unsupported value: '{self.name}'. {reason}"
        return BadRequest(text, param=self.name, code="unsupported_value")

    def refuse_field(self, what: str = "this field") -> BadRequest:  # noqa: ARG002 - others say it
        """Return the error for a field without a counterpart at the upstream; `what` describes the field."""
        return unsupported(
            self.name, " cannot be carried over to this model's provider. Leave it out."
        )


def maybe_kind(part: Any) -> str | None:
    """Return the type of a part of a message; None for a part that `refuse_part` makes the error for."""
    kind = part.get("type") if type(part) is dict else None
    if type(kind) is not str or (kind == "text" and type(part.get("text")) is not str):
        return None
    return kind


def refuse_part(name: str, part: object) -> BadRequest:
    """Make the error for a part that is no object, has no type, or is a text without text."""
    if not isinstance(part, dict):
        return wrong_type(name, "an object", part)
    key = "text" if isinstance(part.get("type"), str) else "type"
    return wrong_type(f"{name}.{key}", "a string", part.get(key))


def _make_check(
    types: tuple[type, ...], expected: str, kind: str = "", least: int = 0, most: int = 0
) -> Check:
    """Make the check of a value's type; for a number (`kind`), also of its range."""

    def check(name: str, value: Any) -> None:
        # Not isinstance: `True` is an `int` in Python.
        if type(value) not in types:
            raise wrong_type(name, expected, value)
        if kind and not least <= value <= most:
            raise _out_of_range(kind, name, value, least, most)

    return check


check_string: Final = _make_check((str,), "a string")
check_boolean: Final = _make_check((bool,), "a boolean")
check_array: Final = _make_check((list,), "an array")
check_object: Final = _make_check((dict,), "an object")


def check_integer(least: int, most: int) -> Check:
    return _make_check((int,), "an integer", "integer", least, most)


def check_number(least: int, most: int) -> Check:
    return _make_check((float, int), "a number", "decimal", least, most)


def check_strings(name: str, value: object, expected: str = "an array of strings") -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise wrong_type(name, expected, value)


def check_word(name: str, value: object, words: Collection[str]) -> None:
    """Check that a string is one of `words`. Null counts as a missing field."""
    if value is None:
        raise missing(name)
    check_string(name, value)
    if value not in words:
        raise BadRequest(
            f"Invalid value for '{name}': expected one of {', '.join(sorted(words))}.",
            param=name,
            code="invalid_value",
        )


def _out_of_range(kind: str, name: str, value: float, least: int, most: int) -> BadRequest:
    which, sign, bound = ("minimum", ">=", least) if value < least else ("maximum", "<=", most)
    side = "below" if value < least else "above"
    return BadRequest(
        f"Invalid '{name}': {kind} {side} {which} value. Expected a value {sign} {bound}, "
        f"but got {value} instead.",
        param=name,
        code=f"{kind}_{side}_{which[:3]}_value",
    )


def wrong_type(name: str, expected: str, value: object) -> BadRequest:
    return BadRequest(
        f"Invalid type for '{name}': expected {expected}, but got {_KINDS[type(value)]} instead.",
        param=name,
        code="invalid_type",
    )


def empty(kind: str, name: str) -> BadRequest:
    """Make the error for an empty `array` or `string`."""
    return BadRequest(
        f"Invalid '{name}': empty {kind}. Expected {'an' if kind == 'array' else 'a'} {kind} with "
        "minimum length 1.",
        param=name,
        code=f"empty_{kind}",
    )


def unsupported(name: str, why: str) -> BadRequest:
    """Make the error for a field that may not be sent; `why` continues the sentence after its name."""
    text = f"Unsupported parameter: '{name}'{why}"
    return BadRequest(text, param=name, code="unsupported_parameter")


def unsupported_file(name: str, instead: str) -> BadRequest:
    """Make the error for a file that is named by its id; `instead` says which fields may hold it."""
    why = ". Files of the operator's own account cannot be named; send the file itself as "
    return unsupported(name, f"{why}{instead}.")


def missing(name: str, more: str = "") -> BadRequest:
    text = f"Missing required parameter: '{name}'.{more}"
    return BadRequest(text, param=name, code="missing_required_parameter")


_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
