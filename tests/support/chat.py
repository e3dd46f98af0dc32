"""The chat API from outside: requests, prices, errors, and the rules of a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.support.accumulated import StreamContent, accumulate
from tests.support.client import Reply

INPUT_PRICE: Final = 137_000_500
CACHED_PRICE: Final = 13_100_700
WRITTEN_PRICE: Final = 171_250_700
OUTPUT_PRICE: Final = 731_000_900
"""Nano-units per million tokens of every test model: an odd number, so that rounding shows."""
PRICE_TOML: Final = (
    "{ input = 0.1370005, cached_input = 0.0131007, cache_write = 0.1712507, output = 0.7310009 }"
)
EMBEDDING_PRICE_TOML: Final = "{ input = 0.1370005 }"
MAX_OUTPUT_TOKENS: Final = 4096

TYPES: Final[Mapping[str | None, tuple[str, ...]]] = {
    "insufficient_quota": ("insufficient_quota",),
    "rate_limit_exceeded": ("requests", "tokens"),
    **dict.fromkeys(("upstream_error", "upstream_timeout", "internal_error"), ("server_error",)),
    **dict.fromkeys(
        ("server_is_overloaded", "upstream_unavailable"), ("service_unavailable_error",)
    ),
}
"""The types that belong to codes; to all others belongs `invalid_request_error`."""
WAITABLE: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Used:
    """Tokens as a chat provider reports them: `cached` and `written` are part of `prompt`."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0

    def of(self, sent: bytes) -> Used:
        """Put the estimate of what a provider was sent in the place of `SENT`."""
        return replace(self, prompt=estimate_sent(sent)) if self.prompt == SENT else self

    @property
    def cost_nano(self) -> int:
        assert self.prompt != SENT
        scaled = (
            (self.prompt - self.cached - self.written) * INPUT_PRICE
            + self.cached * CACHED_PRICE
            + self.written * WRITTEN_PRICE
            + self.completion * OUTPUT_PRICE
        )
        return -(-scaled // 1_000_000)


SENT: Final = -1
"""Stands for the estimate of a request's input, which depends on what its provider is sent."""
NOTHING: Final = Used(0, 0)


def say(model: str, text: str = "Say hello, please.", **extra: Any) -> dict[str, Any]:
    """Make a request with one user message and extra fields."""
    return {"model": model, "messages": [{"role": "user", "content": text}]} | extra


def estimate(text: str) -> int:
    """Estimate the tokens of a text: a quarter of its UTF-8 bytes, rounded up."""
    return -(-len(text.encode()) // 4)


def estimate_sent(body: bytes) -> int:
    """Tokens of a request without files: everything that is sent counts as text."""
    return -(-len(body) // 4)


def check_error(reply: Reply, status: int, code: str | None, *, param: str | None = None) -> str:
    """Check an error reply of the chat dialect and return its message."""
    assert (reply.status, reply.body) == (status, reply.body)
    assert reply.complete
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["x-request-id"]
    assert set(reply.json) == {"error"}
    error = reply.json["error"]
    check_error_object(error)
    assert error["code"] == code
    if param is not None:
        assert error["param"] == param
    check_retry_headers(reply)
    message: str = error["message"]
    return message


def check_error_object(error: dict[str, Any]) -> None:
    """Check the four keys, their types by OpenAI's schema, and that type and code fit together."""
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert len(error["message"]) < 2000
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)
    assert error["type"] in TYPES.get(error["code"], ("invalid_request_error",))


def check_retry_headers(reply: Reply) -> None:
    """Check that 429 and 503 have Retry-After in both units, of at most a minute."""
    if reply.status in WAITABLE:
        assert re.fullmatch(r"\d+", reply.headers["retry-after"])
        assert 0 <= int(reply.headers["retry-after"]) <= 60
        assert re.fullmatch(r"\d+", reply.headers["retry-after-ms"])
        assert int(reply.headers["retry-after-ms"]) <= 60_000


def check_messages_error(reply: Reply, status: int, kind: str) -> None:
    """Check an error reply of the messages dialect."""
    assert (reply.status, reply.body) == (status, reply.body)
    assert reply.headers["content-type"].startswith("application/json")
    assert set(reply.json) == {"type", "error", "request_id"}
    assert reply.json["type"] == "error"
    assert reply.json["error"]["type"] == kind
    assert reply.json["error"]["message"]
    assert reply.json["request_id"] == reply.headers["request-id"] == reply.headers["x-request-id"]
    check_retry_headers(reply)


def split_events(body: bytes) -> list[bytes]:
    """Return the data of every event; each is a line `data: …` and an empty line. Skip comments."""
    body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # all three end lines in SSE
    assert body.endswith(b"\n\n") or body == b"", body[-80:]
    payloads = []
    for block in body.split(b"\n\n")[:-1]:
        lines = [line for line in block.split(b"\n") if line and not line.startswith(b":")]
        if not lines:
            continue
        assert len(lines) == 1, lines
        assert lines[0].startswith(b"data: "), lines
        payloads.append(lines[0].removeprefix(b"data: "))
    return payloads


def read_stream(body: bytes, model: str) -> StreamContent:
    """Check that a stream keeps the rules of chat streams, and return its content."""
    payloads = split_events(body)
    assert payloads[-1] == b"[DONE]"
    assert payloads.count(b"[DONE]") == 1
    chunks = [json.loads(payload) for payload in payloads[:-1]]
    check_chunks(model, chunks, usage=False)
    return accumulate(chunks)


def read_broken_stream(body: bytes, model: str, code: str) -> StreamContent:
    """Check the rules of a failed stream: whole events, one error event, no `[DONE]`."""
    payloads = split_events(body)
    *said, last = [json.loads(payload) for payload in payloads]
    assert set(last) == {"error"}
    check_error_object(last["error"])
    assert last["error"]["code"] == code
    check_chunks(model, said, usage=False, finished=False)
    return accumulate(said)


def check_chunks(
    model: str, chunks: list[dict[str, Any]], *, usage: bool, finished: bool = True
) -> None:
    """Check chunks for schema, order and the model's name that the caller used.

    The first chunk of each choice has the role and an empty content, the last one the finish reason
    and an empty delta. Only a chunk without choices has the usage that the caller asked for.
    """
    assert len({one["id"] for one in chunks}) <= 1
    for one in chunks:
        assert re.fullmatch(r"chatcmpl-.+", one["id"])
        assert one["object"] == "chat.completion.chunk"
        assert one.get("model", model) == model
        assert isinstance(one["choices"], list)
    bare = [number for number, one in enumerate(chunks) if not one["choices"]]
    assert bare in ([[], [len(chunks) - 1]] if usage else [[]])
    assert all(isinstance(chunks[number]["usage"], dict) for number in bare)
    assert not usage or all(one.get("usage") is None for one in chunks if one["choices"])
    said = [one for each in chunks for one in each["choices"]]
    for index in {one["index"] for one in said}:
        _check_choice([one for one in said if one["index"] == index], finished=finished)


def _check_choice(said: list[dict[str, Any]], *, finished: bool) -> None:
    first, *later = said
    assert first["delta"]["role"] == "assistant"
    assert first["delta"]["content"] == ""
    carried = {key: value for key, value in first["delta"].items() if value not in (None, "", [])}
    assert carried == {"role": "assistant"}
    assert first.get("finish_reason") is None
    assert not any("role" in one["delta"] for one in later)
    assert all(one.get("finish_reason") is None for one in said[:-1])
    if finished:
        assert said[-1]["delta"] == {}
        assert isinstance(said[-1]["finish_reason"], str)
    calls = [call for one in said for call in one["delta"].get("tool_calls") or []]
    seen: set[int] = set()
    for call in calls:
        assert type(call["index"]) is int
        assert call["index"] in seen or call["type"]
        seen.add(call["index"])
