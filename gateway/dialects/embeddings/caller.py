"""Embeddings callers: the validation of their requests. Errors and models are written as for chat."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.chat.caller import ChatCaller
from gateway.dialects.records import CompletionRequest, Inputs
from gateway.dialects.wire import fields
from gateway.dialects.wire.openai_caller import OpenAICaller
from gateway.errors import BadRequest
from gateway.usage import count_text, estimate_tokens

MAX_INPUTS: Final = 2048
"""Inputs of a request: OpenAI's own limit."""
MAX_DIMENSIONS: Final = 1 << 16
"""Numbers of a vector: no model comes near, so more is a typing error."""
FORMATS: Final = ("float", "base64")
"""Encodings of a vector. Both SDKs ask for base64 if the caller says nothing."""


class EmbeddingsCaller(OpenAICaller):
    """A `Caller` of the embeddings API. It asks for no streams."""

    name: Final = "embeddings"
    path: Final = "/embeddings"
    marker: Final = None
    keep_alive: Final = b""
    render_error_event = staticmethod(ChatCaller().render_error_event)

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data)
        fields.check_all(body, _FIELDS, required=("model", "input"))
        return CompletionRequest(
            body=body,
            model=body["model"],
            inputs=_read_inputs(body["input"]),
        )


def _read_inputs(value: Any) -> Inputs:
    """Check a text, an array of texts, an array of tokens, or an array of such arrays."""
    if type(value) is str:
        return Inputs(1, _count_tokens("input", value))
    if type(value) is not list:
        raise fields.wrong_type("input", "a string or an array", value)
    if value and type(value[0]) is int:
        return Inputs(1, _count_tokens("input", value))
    if not value:
        raise fields.empty("array", "input")
    if len(value) > MAX_INPUTS:
        raise BadRequest(
            f"Invalid 'input': array too long. Expected an array with maximum length {MAX_INPUTS}, "
            f"but got an array with length {len(value)} instead.",
            param="input",
            code="array_above_max_length",
        )
    kind = str if type(value[0]) is str else list
    tokens = 0
    for index, item in enumerate(value):
        name = f"input[{index}]"
        if type(item) is not kind:
            expected = "a string" if kind is str else "an array of integers"
            raise fields.wrong_type(name, expected, item)
        tokens += _count_tokens(name, item)
    return Inputs(len(value), tokens)


def _count_tokens(name: str, item: str | list[Any]) -> int:
    """Estimate the tokens of a text, or count those of an array. Raises BadRequest if there are none."""
    if not item:
        raise fields.empty("string" if isinstance(item, str) else "array", name)
    if isinstance(item, str):
        return estimate_tokens(count_text(item))
    if set(map(type, item)) != {int}:
        index = next(index for index, one in enumerate(item) if type(one) is not int)
        raise fields.wrong_type(f"{name}[{index}]", "an integer", item[index])
    return len(item)


def _check_format(name: str, value: Any) -> None:
    fields.check_word(name, value, FORMATS)


def _check_stream(name: str, value: Any) -> None:
    fields.check_boolean(name, value)
    if value:
        raise fields.Field(value, name).refuse("Embeddings are not streamed.")


_FIELDS: Final = {
    "model": fields.check_string,
    "stream": _check_stream,
    "dimensions": fields.check_integer(1, MAX_DIMENSIONS),
    "encoding_format": _check_format,
    "user": fields.check_string,
}
