"""The embedded upstream: answers with what it was told, so that all of the gateway can be tried.

It speaks the chat dialect like a provider would: streams, usage, `n`, `stop`, `max_tokens`. A
token is a word with the space behind it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from gateway.config import Provider
from gateway.connection import Receiver
from gateway.dialects.base import Exchange
from gateway.errors import GatewayError
from gateway.forwarder import Answer, Attempt

GREETING: Final = "Hello from the gateway's demo provider. Send a message and it comes back."

MAX_TEXT_CHARS: Final = 16_384
"""Of an answer; `n` multiplies it."""

_TOKEN = re.compile(r"\S+\s*")

Json = dict[str, Any]


class DemoForwarder:
    """A `Forwarder` without a network."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def fetch(self, exchange: Exchange, body: bytes, headers: Mapping[str, str]) -> bytes:  # noqa: ARG002 - the protocol's
        return orjson.dumps(make_completion(orjson.loads(body)))

    async def open(
        self,
        exchange: Exchange,  # noqa: ARG002 - the protocol's
        body: bytes,
        headers: Mapping[str, str],  # noqa: ARG002 - the protocol's
        attempt: Attempt,
    ) -> Answer:
        attempt.connected = True
        return DemoAnswer(iter_chunks(orjson.loads(body)))

    def redact(self, error: GatewayError) -> GatewayError:
        return error

    def close(self) -> None:
        return


class DemoAnswer:
    """An `Answer` made as it is taken."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: Iterator[Json]) -> None:
        self._chunks = chunks

    async def deliver(self, receiver: Receiver) -> None:
        for chunk in self._chunks:
            if not receiver.receive(b"data: " + orjson.dumps(chunk) + b"\n\n"):
                await receiver.ready()
        receiver.receive(b"data: [DONE]\n\n")

    def close(self) -> None:
        self._chunks = iter(())


def make_completion(body: Json) -> Json:
    """The reply to a chat request, whole."""
    tokens, finish = _answer(body)
    message = {"role": "assistant", "content": "".join(tokens), "refusal": None}
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
        for index in range(body.get("n") or 1)
    ]
    return {
        **_head(body, "chat.completion"),
        "choices": choices,
        "usage": _count_usage(body, len(tokens)),
    }


def iter_chunks(body: Json) -> Iterator[Json]:
    """The reply to a chat request as the chunks of a stream."""
    tokens, finish = _answer(body)
    head = _head(body, "chat.completion.chunk")
    deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": token}, None) for token in tokens]
    deltas.append(({}, finish))
    for delta, reason in deltas:
        for index in range(body.get("n") or 1):
            choice = {"index": index, "delta": delta, "finish_reason": reason}
            yield {**head, "choices": [choice]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _count_usage(body, len(tokens))}


def _head(body: Json, kind: str) -> Json:
    now = time.time_ns()
    created = now // 1_000_000_000
    return {
        "id": f"chatcmpl-demo{now:x}",
        "object": kind,
        "created": created,
        "model": body["model"],
    }


def _answer(body: Json) -> tuple[list[str], str]:
    """The tokens of the answer and why it ends."""
    users = [message for message in body["messages"] if message["role"] == "user"]
    text = _read_text(users[-1]) if users else ""
    text = text.strip()[:MAX_TEXT_CHARS] or GREETING
    stops = body.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        text = text.partition(stop)[0] if stop else text
    tokens = _TOKEN.findall(text)
    most = body.get("max_completion_tokens")
    most = body.get("max_tokens") if most is None else most
    if most is not None and len(tokens) > most:
        return tokens[:most], "length"
    return tokens, "stop"


def _count_usage(body: Json, answered: int) -> Json:
    prompt = sum(len(_TOKEN.findall(_read_text(message))) for message in body["messages"])
    completion = answered * (body.get("n") or 1)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _read_text(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(part["text"] for part in content if part.get("type") == "text")
    return content or ""
