"""The bytes of the bench: requests and replies by the templates of `wire.txt`, and how both are read."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final, Literal, get_args

Mode = Literal["json", "messages", "burst", "paced", "responses", "held"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
"""How the provider replies: one JSON object of the chat or the messages dialect, or a stream of chat
whose events leave all at once, one per tick (each stream at its own part of it), the same in the
Responses dialect, or never but for the first.
"""
UNARY: Final = frozenset[Mode]({"json", "messages"})
PARTS: Final = dict(
    block.strip("\n").split("\n", 1)
    for block in Path(__file__).with_name("wire.txt").read_text(encoding="utf-8").split("\n== ")[1:]
)
"""The provider's name of the model differs from ours, so the gateway has to edit every event."""

PROMPT_TOKENS: Final = 120
OUTPUT_TOKENS: Final = 198
JSON_FRAGMENTS: Final = 200
"""Fragments of the text of a JSON reply."""
HEAD_END: Final = b"\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
DONE: Final = b"data: [DONE]\n\n"
STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
STAMP: Final = re.compile(rb"@(\d{10}\.\d{6})@")
"""In the text of a paced event: when it left the provider, on the clock of all processes."""
_BLANK_STAMP: Final = b"@0000000000.000000@"

_WORDS: Final = PARTS["words"].split("|")
_PAD: Final = "Zq81kLmW"
_TYPE: Final = re.compile(r'\{"type":"([^"]+)"')
"""The name of an event of the dialects whose events have one."""


def name_model(mode: Mode) -> str:
    """Return the model by which a caller, and the gateway's route, ask for a mode."""
    return f"bench-{mode}"


def read_mode(body: bytes) -> Mode:
    """Read the mode that a request asks for."""
    return next((mode for mode in MODES if f'"bench-{mode}"'.encode() in body), "json")


def make_request(host: str, key: str, mode: Mode) -> bytes:
    """Make one request of a caller, head and body."""
    dialect = mode if mode in ("messages", "responses") else "chat"
    path, _, text = PARTS[f"request of {dialect}"].partition("\n")
    stream = "" if mode in UNARY else ',"stream":true'
    body = text.replace("MODEL", name_model(mode)).replace("STREAM", stream).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
        "Accept: application/json\r\nContent-Type: application/json\r\n"
        f"User-Agent: bench\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def make_text(fragments: int) -> str:
    return "".join(_make_fragments(fragments))


def _make_fragments(count: int) -> list[str]:
    return [_WORDS[number % len(_WORDS)] for number in range(count)]


def make_reply(mode: Mode) -> bytes:
    """Make a complete JSON reply, head and body."""
    body = PARTS[f"reply of {mode}"].replace("TEXT", make_text(JSON_FRAGMENTS)).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def make_events(
    dialect: str, texts: int, *, with_usage: bool = True, stamped: bool = False
) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Make a stream with so many texts: the events before them, theirs, and those behind.

    `stamped`: there is room for a stamp in each text.
    """
    lines = PARTS[f"stream of {dialect}"].split("\n")
    if not with_usage:
        lines = [one.replace('"usage":null,', "") for one in lines if '"usage":{' not in one]
    at = next(number for number, line in enumerate(lines) if "TEXT" in line)
    stamp = _BLANK_STAMP.decode() if stamped else ""
    words = [lines[at].replace("TEXT", word + stamp) for word in _make_fragments(texts)]
    events = [
        _write_event(line, number)
        for number, line in enumerate([*lines[:at], *words, *lines[at + 1 :]])
    ]
    return events[:at], events[at : at + texts], events[at + texts :]


def _write_event(line: str, number: int) -> bytes:
    kind = _TYPE.match(line)
    name = f"event: {kind[1]}\n" if kind else ""
    line = line.replace("PAD", _PAD[: 1 + number % len(_PAD)]).replace("NUMBER", str(number))
    return f"{name}data: {line}\n\n".encode()


def make_stream_writes(
    dialect: str, events: int, *, with_usage: bool = True, stamped: bool = False
) -> list[bytes]:
    """Make a stream as its upstream's writes: the head and first event, each event, the end."""
    parts = make_events(dialect, events - 2, with_usage=with_usage, stamped=stamped)
    first, *others = (_frame(event) for part in parts for event in part)
    return [STREAM_HEAD + first, *others[:-1], others[-1] + LAST_CHUNK]


def stamp(data: bytes) -> bytes:
    """Write the time into an event that has room for it."""
    return data.replace(_BLANK_STAMP, b"@%017.6f@" % time.monotonic())


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def read_content_length(head: bytes) -> int | None:
    """Read the length from a head with names in any case; None if there is none."""
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at < 0:
        return None
    start = at + len(b"\r\ncontent-length:")
    return int(lowered[start : lowered.index(b"\r\n", start)])


def join_chunks(framed: bytes) -> bytes:
    """Return the body of a whole chunked message. Raises ValueError if its framing is wrong."""
    pieces: list[bytes] = []
    position = 0
    while True:
        line_end = framed.index(b"\r\n", position)
        size = int(framed[position:line_end], 16)
        start, position = line_end + 2, line_end + 4 + size
        if framed[position - 2 : position] != b"\r\n":
            raise ValueError("a chunk does not end where its size says")
        if size == 0:
            break
        pieces.append(framed[start : start + size])
    if position != len(framed):
        raise ValueError("there is something behind the last chunk")
    return b"".join(pieces)
