"""The embedded provider's answers: a second of silence, and the length of a recording."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import orjson

from gateway.dialects.wire.records import Json
from gateway.extras.audio import recordings
from gateway.upstream.demo import TOKEN

SAMPLES: Final = 8000
"""Bytes of a second of sound: a telephone's rate, one byte for each sample."""


def make_silence(_: Json) -> Iterator[bytes]:
    """Make a second of silence, as a WAV file whatever format is asked for."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLES, SAMPLES, 1, 8)
    head = b"WAVE" + form + struct.pack("<4sI", b"data", SAMPLES)
    yield struct.pack("<4sI", b"RIFF", len(head) + SAMPLES) + head
    yield b"\x80" * SAMPLES


def make_transcript(body: Json) -> Iterator[bytes]:
    """Make the reply to a request with a recording, or its stream: it states what arrived."""
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
