"""OpenAI's API of transcripts, the text of a recording.

A recording arrives as the file of a form. A model is priced by the minute or by tokens. The charge is for
the seconds or tokens that the provider reports. The hold, and the charge without a report, are for the
possible length of the file. Replies and events pass unchanged.

Errors and models are written as for chat.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from gateway.base.errors import BadRequest
from gateway.base.money import Tokens
from gateway.base.prices import BillOptions
from gateway.base.usage import TOKENS_PER_SECOND, Expected, Reported, count_text
from gateway.dialects.chat.stream import DONE
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller, EventUpstream
from gateway.dialects.wire.billed import check_fields
from gateway.dialects.wire.failures import check_error
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.known import make_fields
from gateway.dialects.wire.names import refuse_spelling
from gateway.dialects.wire.pipelines import EventReader
from gateway.dialects.wire.provider_bill import read_bill_nano
from gateway.dialects.wire.records import CompletionRequest, Event, Json, ReplyContext, Target
from gateway.dialects.wire.sse import is_canonical, render_data
from gateway.dialects.wire.templates import PROBE
from gateway.dialects.wire.usage import read_openai_usage
from gateway.extras.audio import TRANSCRIPTS, recordings
from gateway.extras.services.upstream import LastEventStream, ServiceUpstream

MAX_SECONDS: Final = 86_400
"""The most seconds that a provider can report, a day: a larger number is a broken report."""
_TEXT_DONE: Final = "transcript.text.done"
_DONE: Final = frozenset({_TEXT_DONE, "transcription.done"})
"""The types of the last event of a stream: OpenAI's, and Mistral's, after which no `[DONE]` comes."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]+)?")
_UNTIMED: Final = frozenset({"text", "srt", "vtt"})
"""Reply formats that report neither seconds nor tokens."""
_ELSEWHERE: Final = frozenset(
    {"audio_url", "audio_urls", "cloud_storage_url", "file_id", "file_ids", "file_url", "file_urls"}
    | {"source_url", "url", "urls"}
)
"""Fields that make some providers fetch a recording from an address, so that its size is unknown, or from
the operator's own account."""
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False, "": False}


class TranscriptsCaller(Caller):
    """A `Caller` of the transcriptions API. `data` holds the form's fields as JSON."""

    name = "transcripts"
    path = "/audio/transcriptions"
    kind = "audio"
    operation = "transcription"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, FIELDS, ("model",))
        for name in body:
            outer = _cut_index(name)
            # Some providers read `model[]` as `model`.
            if outer != name and outer in _CHECKS:
                _refuse(name)
            if (meant := FIELDS.maybe_meant(outer)) not in (None, outer):
                raise refuse_spelling(name, meant or "")
        return CompletionRequest(body, body["model"], _FLAGS[body.get("stream", "").lower()])


def _cut_index(name: str) -> str:
    """Return the field that a name stands for: SDKs write an object's member as `provider[order]`."""
    return _INDEX.split(name, 1)[0]


_INDEX: Final = re.compile(r"[\[.]")


def _refuse(name: str, _value: object = None) -> None:
    raise fields.unsupported(
        name,
        ". Send the recording itself as 'file'; 'model', 'response_format' and 'stream' are texts.",
    )


def _check_flag(name: str, value: Any) -> None:
    fields.check_string(name, value)
    if value.lower() not in _FLAGS:
        raise fields.Field(value, name).refuse("It is true or false.")


def _check_format(name: str, value: Any) -> None:
    fields.check_string(name, value)
    if value in _UNTIMED:
        raise fields.Field(value, name).refuse(
            "Such a reply does not tell what it is charged for. Ask for 'json' or 'verbose_json', whose"
            " segments have the times of subtitles."
        )


_CHECKS: Final[Mapping[str, fields.Check]] = {
    "model": fields.check_string,
    "response_format": _check_format,
    "stream": _check_flag,
    **dict.fromkeys(_ELSEWHERE, _refuse),
}
FIELDS: Final = make_fields(_CHECKS, TRANSCRIPTS)


class TranscriptsUpstream(ServiceUpstream, EventUpstream):
    """An `Upstream` that transcribes recordings."""

    name = "transcripts"
    path = "/audio/transcriptions"
    reply_name = "a transcript"
    multiplied = TRANSCRIPTS

    def demonstrate(self, body: Json) -> Iterator[bytes]:
        return _make_transcript(body)

    def ask(self, body: Json, target: Target) -> Json:
        if target.unit == "character" and any(one.price.input for one in target.prices.applied):
            raise BadRequest(
                "This model reads texts aloud, at /v1/audio/speech alone.",
                param="model",
                code="unsupported_value",
            )
        check_fields({_cut_index(name): body[name] for name in body}, target, self.multiplied)
        return {**body, "model": target.upstream_model}

    def read_bill_options(self, body: Json, data: bytes, target: Target) -> BillOptions:  # noqa: ARG002
        return BillOptions(any_tier=True, by_tokens=target.unit == "token")

    def check_reply(self, reply: Json) -> bool:
        return type(reply.get("text")) is str

    def find_usage(self, reply: Json) -> Json | None:
        usage = super().find_usage(reply)
        return {"seconds": reply["duration"], **(usage or {})} if reply.get("duration") else usage

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        return _report(reply.get("usage"), reply.get("duration"), expected)

    def has_content(self, reply: Json) -> bool:
        return bool(reply["text"])

    def count_text(self, reply: Json) -> int:
        return count_text(reply["text"])

    def replay_reply(self, text: bytes, reply: Json) -> bytes:  # noqa: ARG002
        return render_data({**reply, "type": _TEXT_DONE})

    def open_stream(self, context: ReplyContext) -> TranscriptStream:
        return TranscriptStream(context, TranscriptReader())

    def open_reader(self, context: ReplyContext) -> TranscriptReader:  # noqa: ARG002 - chat's needs it
        return TranscriptReader()


_SECONDS: Final = ("seconds", "prompt_audio_seconds")
"""The names of the seconds in a usage: OpenAI's, and Mistral's."""


def _report(usage: object, duration: object, expected: Expected) -> Reported:
    """Report tokens or seconds, depending on how the model is priced."""
    told = usage if type(usage) is dict else {}
    seconds = next(filter(None, map(_read_seconds, (*map(told.get, _SECONDS), duration))), 0)
    if not expected.options.by_tokens:
        # A second counts as a token of input. Output has no price.
        bill = read_bill_nano(told)
        return Reported(Tokens(seconds), seconds > 0, has_output=True, cost_nano=bill)
    report = read_openai_usage(told, None, expected)
    if seconds and not report.has_input:
        audio = seconds * TOKENS_PER_SECOND
        report.tokens.input, report.tokens.media = audio, {"audio_input": audio}
        report.has_input = report.guessed = True
    return report


def _read_seconds(told: object) -> int:
    """Read seconds, rounded up, from a number or, as older servers send it, a string; 0 if not reported."""
    number = float(told) if type(told) is str and _NUMBER.fullmatch(told) else told
    # Not isinstance: it takes `True` for an int.
    if (type(number) is float or type(number) is int) and 0 < number <= MAX_SECONDS:
        return math.ceil(number)
    return 0


class TranscriptReader(EventReader):
    """An `EventReader` of pieces of text. Only the end of the body ends the stream."""

    __slots__ = ("has_done", "is_done")

    def __init__(self) -> None:
        super().__init__()
        self.is_done = False
        """The last event was read: the one with the whole text."""
        self.has_done = False
        """`[DONE]` was read."""

    @property
    def finished(self) -> bool:
        return self.is_done or self.has_done

    def _note_done(self) -> None:
        self.has_done = True

    def _read_object(self, body: Json, name: str) -> Json:
        check_error(body, name)
        self.begun = True
        self.is_done = self.is_done or get_text(body, "type") in _DONE
        if type(body.get("usage")) is dict:
            self.usage = body["usage"]
        return body

    def read_end(self, end: bytes, usage: Json | None) -> None:  # noqa: ARG002 - only the usage is needed
        """Read the end of an event too large to keep. Only the last can be: it has the whole text."""
        self.begun = self.is_done = True
        self.usage = usage or self.usage

    def read_report(self, expected: Expected) -> Reported:
        return _report(self.usage, None, expected)


class TranscriptStream(LastEventStream):
    """A `Pipeline` that passes events unchanged; vLLM's have the form of chat."""

    __slots__ = ()

    _write_event = staticmethod(render_data)
    _reader: TranscriptReader

    def take_last(self) -> bytes:
        return super().take_last() + (DONE if self._reader.has_done else b"")

    def _is_canonical(self, event: Event, block: bytes, body: Json) -> bool:
        return event.canonical or is_canonical(block, event, get_text(body, "type"))

    def _edit_event(self, block: bytes, body: Json) -> bytes:
        self._begun = True
        kind = get_text(body, "type")
        is_segment = kind.endswith(".segment")
        # Mistral's pieces have a `text`, as segments have; OpenAI's have a `delta`.
        pieces = [body.get("delta") or (kind.endswith((".delta", ".segment")) and body.get("text"))]
        pieces += [
            get_object(one, "delta").get("content")
            for one in get_list(body, "choices")
            if type(one) is dict
        ]
        self._passed_bytes += count_text(*pieces)
        # Events that end the stream or have a usage are read each time.
        if not (is_segment or self._reader.finished) and body.get("usage") is None:
            self._learn_from(block, body)
        return self._rename(block, body)

    def _learn_from(self, block: bytes, body: Json) -> None:
        """Learn the template of an event with one text; segments differ in more than their text."""
        match body:
            case {"type": str(), "delta": str(text)} if text and "choices" not in body:
                probed = {**body, "delta": PROBE}
                self._learn_text(block, (probed, "delta", text), self._rename)
            case {"choices": [{"delta": {"content": str(text)} as delta} as choice]} if (
                text and "delta" not in body and "type" not in body
            ):
                probed = {**body, "choices": [{**choice, "delta": {**delta, "content": PROBE}}]}
                self._learn_text(block, (probed, "content", text), self._rename)
            case _:
                pass

    def _rename(self, block: bytes, body: Json) -> bytes:
        if type(body.get("model")) is not str:
            return block
        return render_data({**body, "model": self._context.request.model})


def _make_transcript(body: Json) -> Iterator[bytes]:
    """Make the embedded provider's reply or stream, which describes the recording."""
    from gateway.upstream.demo import TOKEN  # only where there is such a provider

    upload = body["file"]
    seconds = recordings.measure(upload.head, upload.size).likely
    text = f"A recording of {upload.size:,} bytes, {seconds} seconds at most."
    reply = {"text": text, "usage": {"type": "duration", "seconds": seconds}}
    if body.get("stream", "").lower() not in ("true", "1"):
        is_verbose = body.get("response_format") == "verbose_json"
        yield orjson.dumps(reply | {"duration": float(seconds)} if is_verbose else reply)
        return
    for word in TOKEN.findall(text):
        yield b"data: " + orjson.dumps({"type": "transcript.text.delta", "delta": word}) + b"\n\n"
    yield b"data: " + orjson.dumps({"type": "transcript.text.done", **reply}) + b"\n\n"
