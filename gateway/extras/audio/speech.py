"""OpenAI's API of speech, a text read aloud.

Speech passes as it arrives, except for its last byte, which waits for the charge. The charge is by the
characters of the text, whatever the provider reports: only its event streams report a usage.

Errors and models are written as for chat.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from gateway.base.errors import BadRequest, GatewayError
from gateway.base.money import Tokens
from gateway.base.usage import Expected, Metered, Reported
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller, StreamingUpstream
from gateway.dialects.wire.known import make_fields
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import CompletionRequest, Inputs, Json, ReplyContext, Target
from gateway.extras.audio import SPEECH
from gateway.extras.services.upstream import ServiceUpstream

_SAMPLES: Final = 8000
"""Bytes of a second of the embedded provider's sound: the rate of a telephone, with one byte per sample."""


class SpeechCaller(Caller):
    """A `Caller` of the speech API. Its replies are streams of bytes, which cannot contain comments."""

    name = "speech"
    path = "/audio/speech"
    kind = "audio"
    operation = "speech"
    keep_alive = b""

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, FIELDS, ("model", "input"))
        inputs = Inputs(1, len(body["input"]))
        return CompletionRequest(body, body["model"], stream=True, inputs=inputs)


def _check_input(name: str, value: object) -> None:
    fields.check_string(name, value)
    if not value:
        raise fields.Field(value, name).refuse("The text to be read must not be empty.")


FIELDS: Final = make_fields({"model": fields.check_string, "input": _check_input}, SPEECH)


class SpeechUpstream(ServiceUpstream, StreamingUpstream):
    """An `Upstream` that reads a text aloud. A JSON reply is read only for an error or a usage."""

    name = "speech"
    path = "/audio/speech"
    reply_name = "audio"
    multiplied = SPEECH
    makes_audio = True

    def demonstrate(self, body: Json) -> Iterator[bytes]:  # noqa: ARG002 - always the same WAV
        return _make_silence()

    def ask(self, body: Json, target: Target) -> Json:
        if target.unit != "character":
            raise BadRequest(
                "This model writes down what is said, at /v1/audio/transcriptions alone.",
                param="model",
                code="unsupported_value",
            )
        return super().ask(body, target)

    def check_reply(self, reply: Json) -> bool:  # noqa: ARG002 - JSON is no audio
        return False

    def read_report(self, reply: Json, expected: Expected) -> Reported:  # noqa: ARG002 - characters are charged
        return Reported(Tokens(expected.input_tokens), has_input=True, has_output=True)

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return AudioStream(context)


class AudioStream:
    """A `Pipeline` that passes bytes unread; the last byte waits for the charge."""

    __slots__ = ("_chars", "_last", "begun", "complete")

    failure: GatewayError | None = None
    finished = False
    position: Json | None = None
    buffered_elements = 0

    def __init__(self, context: ReplyContext) -> None:
        inputs = context.request.inputs
        assert inputs is not None
        self._chars = inputs.tokens
        self._last = b""
        self.begun = False
        self.complete = False

    @property
    def mid_event(self) -> bool:
        """Always once audio has begun: it cannot contain an error event, so the connection is cut."""
        return self.begun

    @property
    def delivered(self) -> bool:
        return self.begun

    @property
    def buffered_bytes(self) -> int:
        return len(self._last)

    def feed(self, data: bytes) -> bytes:
        data = self._last + data
        out, self._last = data[:-1], data[-1:]
        self.begun = self.begun or bool(out)
        return out

    def end(self) -> bytes:
        self.complete = self.begun
        return b""

    def take_last(self) -> bytes:
        return self._last

    def measure(self) -> Metered:
        return Metered(Tokens(self._chars), estimated=False)


def _make_silence() -> Iterator[bytes]:
    """Make the embedded provider's reply, a second of silence: a WAV file, whatever format was requested."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, _SAMPLES, _SAMPLES, 1, 8)
    head = b"WAVE" + form + struct.pack("<4sI", b"data", _SAMPLES)
    yield struct.pack("<4sI", b"RIFF", len(head) + _SAMPLES) + head
    yield b"\x80" * _SAMPLES
