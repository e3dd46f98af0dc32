"""Streams of transcripts: events pass in any slicing, most of them by a template, and are counted."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gateway.dialects.wire.records import Event
from gateway.extras.audio.transcripts import TranscriptReader
from tests.dialects.chat.kit import MODEL, Json, make_context, make_dice, random_slices
from tests.support.formats import SERVICES
from tests.support.replies import sse
from tests.support.rows import each_row

TRANSCRIPTS: Final = SERVICES["transcripts"]

WORDS: Final = ("a", " b", '"', "\n", "é🎉", "\\") * 20
SAID: Final = sum(len(word.encode()) for word in WORDS)
SEGMENT: Final[Json] = {"type": "transcript.text.segment", "id": "s", "start": 0.5, "text": "ab"}
DELTA: Final = "transcript.text.delta"


def write(word: str, form: str) -> Json:
    if form == "openai":
        return {"type": DELTA, "delta": word}
    if form == "both":  # two texts, of which both count
        return {"type": DELTA, "delta": word, "choices": [{"delta": {"content": ""}}]}
    return {"model": MODEL, "choices": [{"index": 0, "delta": {"content": word}}]}


@each_row("form", ["openai", "both", "vllm"])
def test_tiny_events_pass_as_they_are_and_are_counted(form: str) -> None:
    events: list[Any] = [write(word, form) for word in WORDS]
    events[50:50] = [SEGMENT]
    passed = b"".join(map(sse, events))
    sent = passed.replace(sse(MODEL)[6:-2], b'"theirs"')
    dice = make_dice()
    for pieces in ([sent], *(random_slices(sent, dice) for _ in range(20))):
        stream = TRANSCRIPTS.open_stream(make_context())
        assert b"".join(map(stream.feed, pieces)) == passed
        assert stream.measure().tokens.output == -(-(SAID + 2) // 4)
        assert not stream.finished
        last = sse({"type": "transcript.text.done", "text": "x", "usage": {"seconds": 2}})
        assert stream.feed(last) + stream.end() + stream.take_last() == last
        assert stream.complete


@each_row("form", ["openai", "vllm"])
def test_events_of_one_form_are_parsed_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, parse = [], TranscriptReader.read_event

    def count(self: TranscriptReader, event: Event) -> Json | None:
        read.append(event)
        return parse(self, event)

    monkeypatch.setattr(TranscriptReader, "read_event", count)
    TRANSCRIPTS.open_stream(make_context()).feed(sse(write("x", form)) * 1000)
    assert len(read) == 1
