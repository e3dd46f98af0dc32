"""The embedded provider: it repeats the caller's words, so the gateway can be tried without a key.

It speaks the chat dialect as a provider would: streams, usage, `n`, `stop`, `max_tokens`. A token is a
word with the white space after it. Other services have answers of their own: `Upstream.demonstrate`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from gateway.base.errors import BadRequest
from gateway.config.records import Provider
from gateway.upstream.attempt import Attempt, Forwarder
from gateway.upstream.receivers import Wants

GREETING: Final = "Hello from the gateway's demo provider. Send a message and it comes back."

MAX_TEXT_CHARS: Final = 16_384
"""Characters of the longest answer, so that a trial stays small; `n` multiplies it."""

TOKEN = re.compile(r"\S+\s*")

Json = dict[str, Any]


class DemoForwarder(Forwarder):
    """A `Forwarder` without a network, and so without keys."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def send(self, attempt: Attempt) -> None:
        attempt.life.check()
        attempt.life.note_sent()
        body, upstream = attempt.body, attempt.exchange.upstream
        asked = orjson.loads(body) if isinstance(body, bytes) else body.read_json()
        make = upstream.demonstrate or _write_body
        try:
            pieces = make(asked)
        except BadRequest:
            attempt.life.note_declined()
            raise
        receiver = attempt.open_reply("audio/wav")
        for piece in pieces:  # it is made while it is taken
            wants = receiver.receive(piece)
            if wants is Wants.NOTHING:
                return
            if wants is Wants.ROOM:
                await receiver.unblock()
            attempt.life.check()
            await asyncio.sleep(0)  # other tasks get a turn, and the request may be ended
        receiver.end()


def _write_body(body: Json) -> Iterator[bytes]:
    if body.get("stream"):
        yield from write_stream(iter_chunks(body))
    else:
        yield orjson.dumps(make_completion(body))


def write_stream(chunks: Iterable[Json]) -> Iterator[bytes]:
    """Write chunks as events, and the end."""
    for chunk in chunks:
        yield b"data: " + orjson.dumps(chunk) + b"\n\n"
    yield b"data: [DONE]\n\n"


def make_completion(body: Json) -> Json:
    """Make the whole reply to a chat request."""
    tokens, finish = _answer(body)
    message = {"role": "assistant", "content": "".join(tokens), "refusal": None}
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
        for index in range(body.get("n") or 1)
    ]
    head, usage = make_head(body, "chat.completion"), _count_usage(body, len(tokens))
    return {**head, "choices": choices, "usage": usage}


def iter_chunks(body: Json) -> Iterator[Json]:
    """Generate the reply to a chat request as the chunks of a stream."""
    tokens, finish = _answer(body)
    head = make_head(body, "chat.completion.chunk")
    deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": token}, None) for token in tokens]
    deltas.append(({}, finish))
    for delta, reason in deltas:
        for index in range(body.get("n") or 1):
            choice = {"index": index, "delta": delta, "finish_reason": reason}
            yield {**head, "choices": [choice]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _count_usage(body, len(tokens))}


def make_head(body: Json, kind: str) -> Json:
    """Make the members that a reply and its chunks begin with."""
    now = time.time_ns()
    made = {"id": f"chatcmpl-demo{now:x}", "object": kind, "created": now // 1_000_000_000}
    return {**made, "model": body["model"]}


def _answer(body: Json) -> tuple[list[str], str]:
    """Return the tokens of the answer and its finish reason."""
    users = [message for message in body["messages"] if message["role"] == "user"]
    return cut(body, _read_text(users[-1]) if users else "")


def cut(body: Json, text: str) -> tuple[list[str], str]:
    """Return the tokens of a text as far as a request allows, and its finish reason."""
    text = text.strip()[:MAX_TEXT_CHARS] or GREETING
    stops = body.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        text = text.partition(stop)[0] if stop else text
    tokens = TOKEN.findall(text)
    most = body.get("max_completion_tokens")
    most = body.get("max_tokens") if most is None else most
    if most is not None and len(tokens) > most:
        return tokens[:most], "length"
    return tokens, "stop"


def _count_usage(body: Json, answered: int) -> Json:
    prompt = sum(len(TOKEN.findall(_read_text(message))) for message in body["messages"])
    return make_usage(prompt, answered * (body.get("n") or 1))


def make_usage(prompt: int, completion: int) -> Json:
    """Make a usage in the form of chat's."""
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
