"""The embedded provider: it repeats the caller's words, so the gateway can be tried without a key.

It speaks the chat dialect as a provider would: streams, usage, `n`, `stop`, `max_tokens`. A token is a
word with the white space after it. It completes text in the same way and makes embeddings. Its speech is
a second of silence; its transcript of a recording states the length.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import struct
import time
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from gateway.config.records import Provider
from gateway.dialects import recordings
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.forms import Body, Form
from gateway.errors import BadRequest
from gateway.upstream.attempt import Attempt, Response
from gateway.upstream.encodings import Receiver
from gateway.upstream.forwarder import Forwarder

GREETING: Final = "Hello from the gateway's demo provider. Send a message and it comes back."

MAX_TEXT_CHARS: Final = 16_384
"""Characters of the longest answer, so that a trial stays small; `n` multiplies it."""

_TOKEN = re.compile(r"\S+\s*")

Json = dict[str, Any]


class DemoForwarder(Forwarder):
    """A `Forwarder` without a network, and so without keys."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def open(
        self,
        exchange: Exchange,
        body: Body,
        headers: Mapping[str, str],  # noqa: ARG002 - the protocol's
        attempt: Attempt,
    ) -> Response:
        attempt.send()
        asked = (
            {**body.fields, "file": body.upload} if isinstance(body, Form) else orjson.loads(body)
        )
        make = _MAKERS.get(exchange.upstream.name, _write_body)
        try:
            return DemoResponse(make(asked), attempt)
        except BadRequest:
            attempt.on_refused()
            raise


class DemoResponse:
    """A `Response` that is generated while it is delivered."""

    __slots__ = ("_attempt", "_pieces")

    content_type = "audio/wav"

    def __init__(self, pieces: Iterator[bytes], attempt: Attempt) -> None:
        self._pieces = pieces
        self._attempt = attempt

    async def deliver(self, receiver: Receiver) -> None:
        for piece in self._pieces:
            if not receiver.receive(piece):
                await receiver.unblock()
            self._attempt.check()
            await asyncio.sleep(0)  # other tasks get a turn, and the attempt may be ended

    def stop(self) -> None:
        self._pieces = iter(())

    def close(self) -> None:
        return


def _write_body(body: Json) -> Iterator[bytes]:
    if body.get("stream"):
        yield from _write_stream(iter_chunks(body))
    else:
        yield orjson.dumps(make_completion(body))


def _write_stream(chunks: Iterable[Json]) -> Iterator[bytes]:
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
    head, usage = _head(body, "chat.completion"), _count_usage(body, len(tokens))
    return {**head, "choices": choices, "usage": usage}


def iter_chunks(body: Json) -> Iterator[Json]:
    """Generate the reply to a chat request as the chunks of a stream."""
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
    made = {"id": f"chatcmpl-demo{now:x}", "object": kind, "created": now // 1_000_000_000}
    return {**made, "model": body["model"]}


def _answer(body: Json) -> tuple[list[str], str]:
    """Return the tokens of the answer and its finish reason."""
    users = [message for message in body["messages"] if message["role"] == "user"]
    return _cut(body, _read_text(users[-1]) if users else "")


def _cut(body: Json, text: str) -> tuple[list[str], str]:
    """Return the tokens of a text as far as a request allows, and its finish reason."""
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
    return _make_usage(prompt, answered * (body.get("n") or 1))


def _make_usage(prompt: int, completion: int) -> Json:
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


def make_texts(body: Json) -> Iterator[bytes]:
    """Make the reply to a request to continue a prompt, or the chunks of its stream."""
    prompts, n = _list_inputs(body["prompt"]), body.get("n") or 1
    texts = [_cut(body, _show(prompt)) for prompt in prompts for _ in range(n)]
    head = {**_head(body, "text_completion"), "id": f"cmpl-demo{time.time_ns():x}"}
    usage = _make_usage(sum(map(_count_tokens, prompts)), sum(len(tokens) for tokens, _ in texts))
    choices = [
        {"text": "".join(tokens), "index": index, "logprobs": None, "finish_reason": reason}
        for index, (tokens, reason) in enumerate(texts)
    ]
    if not body.get("stream"):
        yield orjson.dumps({**head, "choices": choices, "usage": usage})
        return
    pieces: list[Json] = []
    for choice, (tokens, _) in zip(choices, texts, strict=True):
        pieces += [{**choice, "text": token, "finish_reason": None} for token in tokens]
        pieces.append({**choice, "text": ""})
    chunks = [{**head, "choices": [piece]} for piece in pieces]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    yield from _write_stream(chunks)


def _show(prompt: str | list[int]) -> str:
    return prompt if isinstance(prompt, str) else " ".join(map(str, prompt))


DIMENSIONS: Final = 64
"""Numbers of a vector if the caller does not say how many."""
MAX_DIMENSIONS: Final = 1024
"""Numbers of a vector, so that a trial stays small."""
TURN: Final = 16
"""Vectors made before other tasks get a turn; the largest take 2 ms."""


def make_embeddings(body: Json) -> Iterator[bytes]:
    """Make the reply to an embeddings request, in pieces. Raises BadRequest for too many dimensions."""
    dimensions = body.get("dimensions") or DIMENSIONS
    if dimensions > MAX_DIMENSIONS:
        raise BadRequest(
            f"Invalid 'dimensions': the demo provider's vectors have at most {MAX_DIMENSIONS}.",
            param="dimensions",
            code="integer_above_max_value",
        )
    return _write_reply(body, _list_inputs(body["input"]), dimensions)


def _write_reply(body: Json, inputs: Sequence[Any], dimensions: int) -> Iterator[bytes]:
    packs = body.get("encoding_format") == "base64"
    head: Json = {"object": "list", "model": body["model"]}
    yield orjson.dumps(head)[:-1] + b',"data":['
    for begin in range(0, len(inputs), TURN):
        items = []
        for index, text in enumerate(inputs[begin : begin + TURN], begin):
            vector = make_vector(text, dimensions)
            item = _pack(vector) if packs else vector
            items.append({"object": "embedding", "index": index, "embedding": item})
        yield (b"," if begin else b"") + orjson.dumps(items)[1:-1]
    count = sum(map(_count_tokens, inputs))
    usage = {"prompt_tokens": count, "total_tokens": count}
    yield b'],"usage":' + orjson.dumps(usage) + b"}"


def make_vector(text: str | list[int], dimensions: int) -> list[float]:
    """Make a vector of length 1 from a text or its tokens: numbers without a pattern."""
    said = text.encode() if isinstance(text, str) else orjson.dumps(text)
    digest = hashlib.shake_128(said).digest(2 * dimensions)
    # Odd numbers: none is 0, so the vector has a length.
    numbers = [number | 1 for number in struct.unpack(f"<{dimensions}h", digest)]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _list_inputs(value: Any) -> list[Any]:
    is_one = isinstance(value, str) or isinstance(value[0], int)
    return [value] if is_one else value


def _count_tokens(text: str | list[int]) -> int:
    """Count words, as the demo does elsewhere, or the tokens that the caller made."""
    return (len(text.split()) or 1) if isinstance(text, str) else len(text)


def _pack(vector: list[float]) -> str:
    packed = struct.pack(f"<{len(vector)}f", *vector)
    return b2a_base64(packed, newline=False).decode()


SAMPLES: Final = 8000
"""Bytes of a second of sound: a telephone's rate, one byte for each sample."""


def make_silence(_: Json) -> Iterator[bytes]:
    """Make a second of silence, as a WAV file whatever format is asked for."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLES, SAMPLES, 1, 8)
    head = b"WAVE" + form + struct.pack("<4sI", b"data", SAMPLES)
    yield struct.pack("<4sI", b"RIFF", len(head) + SAMPLES) + head
    yield b"\x80" * SAMPLES


PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel."""


def make_images(body: Json) -> Iterator[bytes]:
    """Make the reply to a request for images, or the stream of one."""
    created = int(time.time())
    if not body.get("stream"):
        images = [{"b64_json": PNG}] * (body.get("n") or 1)
        yield orjson.dumps({"created": created, "data": images})
        return
    for kind in ("image_generation.partial_image", "image_generation.completed"):
        event = {"type": kind, "b64_json": PNG, "created_at": created}
        yield b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(event))


def make_ranks(body: Json) -> Iterator[bytes]:
    """Make the reply to a rerank request: relevance is the share of the query's words in a document."""
    documents = body.get("documents") or body["texts"]
    wanted = set(body["query"].lower().split())
    results = []
    for index, document in enumerate(documents):
        said = document if isinstance(document, str) else str(document.get("text", ""))
        share = len(wanted.intersection(said.lower().split())) / (len(wanted) or 1)
        results.append({"index": index, "relevance_score": share})
    results.sort(key=lambda one: -one["relevance_score"])
    usage = {"total_tokens": sum(map(_count_tokens, map(str, documents)))}
    top = results[: body.get("top_n")]
    yield orjson.dumps({"model": body["model"], "results": top, "usage": usage})


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
    for word in _TOKEN.findall(text):
        yield b"data: " + orjson.dumps({"type": "transcript.text.delta", "delta": word}) + b"\n\n"
    yield b"data: " + orjson.dumps({"type": "transcript.text.done", **reply}) + b"\n\n"


_MAKERS: Final = {
    "embeddings": make_embeddings,
    "completions": make_texts,
    "speech": make_silence,
    "images": make_images,
    "rerank": make_ranks,
    "transcripts": make_transcript,
}
"""The function that makes a reply, by the upstream's format; chat's for formats not listed."""
