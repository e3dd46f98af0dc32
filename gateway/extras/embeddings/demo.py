"""The embedded provider's reply: vectors without a meaning."""

from __future__ import annotations

import hashlib
import math
import struct
from binascii import b2a_base64
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import Json
from gateway.extras.services.inputs import count_words, list_inputs

DIMENSIONS: Final = 64
"""Numbers of a vector if the caller does not say how many: few, so that a trial stays readable."""
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
    return _write_reply(body, list_inputs(body["input"]), dimensions)


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
    count = sum(map(count_words, inputs))
    usage = {"prompt_tokens": count, "total_tokens": count}
    yield b'],"usage":' + orjson.dumps(usage) + b"}"


def make_vector(text: str | list[int], dimensions: int) -> list[float]:
    """Make a vector of length 1 from a text or its tokens: numbers without a pattern."""
    content = text.encode() if isinstance(text, str) else orjson.dumps(text)
    digest = hashlib.shake_128(content).digest(2 * dimensions)
    # Odd numbers are never 0, so the vector has a length.
    numbers = [number | 1 for number in struct.unpack(f"<{dimensions}h", digest)]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _pack(vector: list[float]) -> str:
    packed = struct.pack(f"<{len(vector)}f", *vector)
    return b2a_base64(packed, newline=False).decode()
