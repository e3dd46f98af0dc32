"""The speech API (OpenAI's): a text read aloud, by providers of the chat and responses dialects.

The audio passes as it comes, but for its last byte, which waits for the charge. That is by the
characters of the text, whatever the provider says: only its streams of events report a usage. Errors
and models are written as for chat.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import Caller, Pipeline
from gateway.dialects.chat.dialect import ChatUpstream
from gateway.dialects.records import CompletionRequest, Inputs, Json, ReplyContext, Target
from gateway.dialects.wire import fields
from gateway.errors import BadRequest, GatewayError
from gateway.money import Tokens
from gateway.usage import Metered


class SpeechCaller(Caller):
    """A `Caller` of the speech API. Its replies are streams of bytes, in which no comment has a place."""

    name = "speech"
    path = "/audio/speech"
    kind = "audio"
    keep_alive = b""

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data)
        fields.check_all(body, _FIELDS, required=("model", "input"))
        inputs = Inputs(1, len(body["input"]))
        return CompletionRequest(body, body["model"], stream=True, inputs=inputs)


def _check_input(name: str, value: Any) -> None:
    fields.check_string(name, value)
    if not value:
        raise fields.Field(value, name).refuse("The text to be read must not be empty.")


_FIELDS: Final = {"model": fields.check_string, "input": _check_input}


class SpeechUpstream(ChatUpstream):
    """An `Upstream` that reads a text aloud."""

    name = "speech"
    path = "/audio/speech"
    makes_audio = True

    def ask(self, body: Json, target: Target) -> Json:
        if target.unit != "character":
            raise BadRequest(
                "This model writes down what is said, at /v1/audio/transcriptions alone.",
                param="model",
                code="unsupported_value",
            )
        return super().ask(body, target)

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return AudioStream(context)


class AudioStream:
    """A `Pipeline`: bytes that nobody reads, of which the last one waits for the charge."""

    __slots__ = ("_chars", "_last", "begun", "complete")

    failure: GatewayError | None = None
    finished = False
    position: Json | None = None
    held_elements = 0

    def __init__(self, context: ReplyContext) -> None:
        inputs = context.request.inputs
        assert inputs is not None
        self._chars = inputs.tokens
        self._last = b""
        self.begun = False
        self.complete = False

    @property
    def mid_event(self) -> bool:
        """An error has no place in audio: what fails is cut off."""
        return self.begun

    @property
    def delivered(self) -> bool:
        return self.begun

    @property
    def held_bytes(self) -> int:
        return len(self._last)

    def feed(self, data: bytes) -> bytes:
        data = self._last + data
        out, self._last = data[:-1], data[-1:]
        self.begun = self.begun or bool(out)
        return out

    def end(self) -> bytes:
        self.complete = self.begun
        return b""

    def finish(self) -> bytes:
        return self._last

    def measure(self) -> Metered:
        return Metered(Tokens(self._chars), estimated=False)
