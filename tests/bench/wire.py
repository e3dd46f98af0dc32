"""The bytes of the bench: requests, replies, and how both are read."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Final, Literal, get_args

Mode = Literal["json", "messages", "burst", "paced", "responses", "held"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
"""How the provider replies: one JSON object of the chat or the messages dialect, or a stream of chat
whose events leave all at once, one per tick (each stream at its own part of it), the same in the
Responses dialect, or never but for the first.
"""
UNARY: Final = frozenset[Mode]({"json", "messages"})
UPSTREAM_MODEL: Final = "model-of-the-upstream"
"""The provider's name of the model. It differs, so the gateway has to edit every event."""
CHAT_PATH: Final = "/v1/chat/completions"
MESSAGES_PATH: Final = "/v1/messages"
RESPONSES_PATH: Final = "/v1/responses"

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

_WORDS: Final = (
    " the",
    " gateway",
    " passes",
    " what",
    " comes",
    ",",
    " byte",
    " for",
    " byte",
    ".",
)
_PAD: Final = "Zq81kLmW"
_IDENTITY: Final[dict[str, Any]] = {
    "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
    "created": 1_763_712_000,
    "model": UPSTREAM_MODEL,
    "service_tier": "default",
    "system_fingerprint": "fp_44709d6fcb",
}


def name_model(mode: Mode) -> str:
    """Return the model by which a caller, and the gateway's route, ask for a mode."""
    return f"bench-{mode}"


def read_mode(body: bytes) -> Mode:
    """Read the mode that a request asks for."""
    return next((mode for mode in MODES if f'"bench-{mode}"'.encode() in body), "json")


def make_request(host: str, key: str, mode: Mode) -> bytes:
    """Make one request of a caller, head and body."""
    body = json.dumps(
        {
            "model": name_model(mode),
            **_make_prompt(mode),
            "temperature": 0.7,
            "max_output_tokens" if mode == "responses" else "max_tokens": 256,
            **({} if mode in UNARY else {"stream": True}),
        },
        separators=(",", ":"),
    ).encode()
    path = {"messages": MESSAGES_PATH, "responses": RESPONSES_PATH}.get(mode, CHAT_PATH)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
        "Accept: application/json\r\nContent-Type: application/json\r\n"
        f"User-Agent: bench\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _make_prompt(mode: Mode) -> dict[str, Any]:
    system, user = "You are a helpful assistant. " * 4, "Tell me what a gateway does. " * 12
    asked = [{"role": "user", "content": user}]
    if mode == "messages":
        return {"system": system, "messages": asked}
    if mode == "responses":
        return {"instructions": system, "input": asked}
    return {"messages": [{"role": "system", "content": system}, *asked]}


def make_text(fragments: int) -> str:
    return "".join(_make_fragments(fragments))


def _make_fragments(count: int) -> list[str]:
    return [_WORDS[number % len(_WORDS)] for number in range(count)]


def make_json_reply() -> bytes:
    """Make a complete JSON reply of the chat dialect, head and body."""
    message = {"role": "assistant", "content": make_text(JSON_FRAGMENTS), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return _make_reply(
        {"object": "chat.completion", **_IDENTITY, "choices": [choice], "usage": _make_usage()}
    )


def make_messages_reply() -> bytes:
    """Make a complete JSON reply of the messages dialect, head and body."""
    return _make_reply(
        {
            "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
            "type": "message",
            "role": "assistant",
            "model": UPSTREAM_MODEL,
            "content": [{"type": "text", "text": make_text(JSON_FRAGMENTS)}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": PROMPT_TOKENS,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": OUTPUT_TOKENS,
            },
        }
    )


def _make_reply(reply: dict[str, Any]) -> bytes:
    body = json.dumps(reply, separators=(",", ":")).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def make_stream_writes(events: int, *, with_usage: bool, stamped: bool = False) -> list[bytes]:
    """Make a stream as its upstream's writes: the head and first event, each event, the end.

    `stamped`: there is room for a stamp in the text of each event.
    """
    stamp = _BLANK_STAMP.decode() if stamped else ""
    texts = [text + stamp for text in _make_fragments(events - 2)]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "refusal": None},
        *({"content": text} for text in texts),
        {},
    ]
    chunks = [
        _make_chunk(
            [_make_choice(delta)], with_usage=with_usage, pad=_PAD[: 1 + number % len(_PAD)]
        )
        for number, delta in enumerate(deltas)
    ]
    if with_usage:
        chunks.append(_make_chunk([], with_usage=True, pad="") | {"usage": _make_usage()})
    lines = [
        b"data: " + json.dumps(one, separators=(",", ":")).encode() + b"\n\n" for one in chunks
    ]
    first, *others = map(_frame, lines)
    return [STREAM_HEAD + first, *others, _frame(DONE) + LAST_CHUNK]


def make_responses_writes(events: int) -> list[bytes]:
    """Make a stream of the Responses dialect as its upstream's writes, one for each event."""
    begun = {"id": "resp_68f1", "object": "response", "model": UPSTREAM_MODEL, "output": []}
    usage = {
        "input_tokens": PROMPT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "total_tokens": PROMPT_TOKENS + OUTPUT_TOKENS,
    }
    where = {"item_id": "msg_68f1a2", "output_index": 0, "content_index": 0}
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**begun, "status": "in_progress"}},
        *(
            {"type": "response.output_text.delta", **where, "delta": text + _BLANK_STAMP.decode()}
            for text in _make_fragments(events - 2)
        ),
        {
            "type": "response.completed",
            "response": {**begun, "status": "completed", "usage": usage},
        },
    ]
    first, *others = (
        _frame(
            b"event: %b\ndata: %b\n\n"
            % (one["type"].encode(), json.dumps({**one, "sequence_number": number, **pad}).encode())
        )
        for number, one in enumerate(told)
        for pad in [{"obfuscation": _PAD[: 1 + number % len(_PAD)]}]
    )
    return [STREAM_HEAD + first, *others[:-1], others[-1] + LAST_CHUNK]


def stamp(data: bytes) -> bytes:
    """Write the time into an event that has room for it."""
    return data.replace(_BLANK_STAMP, b"@%017.6f@" % time.monotonic())


def _make_chunk(choices: list[Any], *, with_usage: bool, pad: str) -> dict[str, Any]:
    usage = {"usage": None} if with_usage else {}
    obfuscation = {"obfuscation": pad} if pad else {}
    return (
        {"object": "chat.completion.chunk"} | _IDENTITY | {"choices": choices} | usage | obfuscation
    )


def _make_choice(delta: dict[str, Any]) -> dict[str, Any]:
    return {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": None if delta else "stop",
    }


def _make_usage() -> dict[str, Any]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": PROMPT_TOKENS + OUTPUT_TOKENS,
    }


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
