"""Providers' bytes: completions, chunks, and the HTTP around them, whole or broken."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from tests.support.upstream import Script, Step

UPSTREAM_ID: Final = "chatcmpl-upstream0001"
UPSTREAM_MODEL: Final = "upstream-model-2026"
USAGE: Final = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
LAST_CHUNK: Final = b"0\r\n\r\n"
DONE: Final = b"data: [DONE]\n\n"

Json = dict[str, Any]
Framing = Literal["length", "chunked", "close"]


def dumps(value: object) -> bytes:
    """Write compact JSON like providers do."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def head(
    status: int = 200,
    *,
    content_type: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
    reason: str = "Said",
) -> bytes:
    """Write status line and headers, without a length and without the empty line."""
    lines = [f"HTTP/1.1 {status} {reason}"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n"


def http(
    body: bytes,
    status: int = 200,
    *,
    content_type: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
    framing: Framing = "length",
) -> bytes:
    """Write a whole reply; with `close` it ends with the connection, which the script closes."""
    start = head(status, content_type=content_type, headers=headers)
    if framing == "length":
        return start + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if framing == "chunked":
        return start + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body) + LAST_CHUNK
    return start + b"Connection: close\r\n\r\n" + body


def json_reply(
    value: object, status: int = 200, *, headers: Mapping[str, str] | None = None
) -> Script:
    return [http(dumps(value), status, headers=headers)]


def error_reply(
    status: int,
    message: str = "the upstream says no",
    *,
    kind: str = "invalid_request_error",
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Script:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json_reply({"error": error}, status, headers=headers)


def completion(text: str | None = "Hello, world!", *, usage: object = USAGE, **extra: Any) -> Json:
    """Make a chat completion; `usage=None` leaves it out, `extra` changes the top level."""
    value: Json = {
        "id": UPSTREAM_ID,
        "object": "chat.completion",
        "created": 1770000000,
        "model": UPSTREAM_MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
    }
    if usage is not None:
        value["usage"] = usage
    return value | extra


def usage(prompt: int, completion_tokens: int, total: int | None = None, **details: int) -> Json:
    """Make a usage object; `details` are those of the prompt's tokens."""
    value: Json = {
        "prompt_tokens": prompt,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt + completion_tokens if total is None else total,
    }
    if details:
        value["prompt_tokens_details"] = details
    return value


def chunk(
    delta: Json | None, *, finish: str | None = None, index: int = 0, usage: object = None
) -> Json:
    """Make a chunk like OpenAI's when usage was asked for; `delta=None` means `choices:[]`."""
    choices: list[Json] = []
    if delta is not None:
        choices = [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}]
    return {
        "id": UPSTREAM_ID,
        "object": "chat.completion.chunk",
        "created": 1770000000,
        "model": UPSTREAM_MODEL,
        "choices": choices,
        "usage": usage,
    }


def text_chunks(pieces: Sequence[str], *, finish: str | None = "stop") -> list[Json]:
    """Make the role chunk, one chunk per piece, and the end unless `finish` is None."""
    chunks = [chunk({"role": "assistant", "content": "", "refusal": None})]
    chunks += [chunk({"content": piece}) for piece in pieces]
    if finish is not None:
        chunks.append(chunk({}, finish=finish))
    return chunks


def stream_chunks(pieces: Sequence[str], usage: object = USAGE) -> list[Json]:
    """Make a conforming stream with its usage chunk."""
    return [*text_chunks(pieces), chunk(None, usage=usage)]


def sse(value: object) -> bytes:
    """Frame one event; bytes are used unchanged."""
    return value if isinstance(value, bytes) else b"data: " + dumps(value) + b"\n\n"


def stream_head(*, framing: Framing = "chunked", headers: Mapping[str, str] | None = None) -> bytes:
    start = head(content_type="text/event-stream; charset=utf-8", headers=headers)
    if framing == "chunked":
        return start + b"Transfer-Encoding: chunked\r\n\r\n"
    return start + b"Connection: close\r\n\r\n"


def chunked(data: bytes) -> bytes:
    """Frame one HTTP chunk; b"" for no data, as an empty chunk would be the last."""
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def sse_reply(events: Iterable[object], *, done: bool = True) -> Script:
    """Write a whole stream, with one HTTP chunk per event."""
    steps: list[Step] = [stream_head()]
    steps += [chunked(sse(event)) for event in events]
    if done:
        steps.append(chunked(DONE))
    return [*steps, LAST_CHUNK]


def sse_start(events: Iterable[object]) -> list[Step]:
    """Write a stream that has begun; the test plays what comes next."""
    return [stream_head(), *(chunked(sse(event)) for event in events)]
