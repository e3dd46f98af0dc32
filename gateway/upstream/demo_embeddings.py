"""The embedded provider's embeddings: vectors made of hashes, so that equal texts have equal ones.

Nothing else about them means anything: two texts that differ in one letter are no nearer than others.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import struct
from binascii import b2a_base64
from typing import Any, Final

import orjson

from gateway.errors import BadRequest

DIMENSIONS: Final = 64
"""Numbers of a vector if the caller does not say how many."""
MAX_DIMENSIONS: Final = 1024
"""Numbers of a vector, so that a trial stays small."""
TURN: Final = 16
"""Vectors that are made before others get their turn; the largest take 2 ms."""

Json = dict[str, Any]


async def make_embeddings(body: Json) -> bytes:
    """Make the reply to an embeddings request. Raises BadRequest for too many dimensions."""
    dimensions = body.get("dimensions") or DIMENSIONS
    if dimensions > MAX_DIMENSIONS:
        raise BadRequest(
            f"Invalid 'dimensions': the demo provider's vectors have at most {MAX_DIMENSIONS}.",
            param="dimensions",
            code="integer_above_max_value",
        )
    packs = body.get("encoding_format") == "base64"
    inputs = _list_inputs(body["input"])
    data = []
    for index, text in enumerate(inputs):
        if index % TURN == 0:
            await asyncio.sleep(0)
        vector = make_vector(text, dimensions)
        item = _pack(vector) if packs else vector
        data.append({"object": "embedding", "index": index, "embedding": item})
    count = sum(map(_count_tokens, inputs))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return orjson.dumps({"object": "list", "data": data, "model": body["model"], "usage": usage})


def make_vector(text: str | list[int], dimensions: int) -> list[float]:
    """Make the vector of a text, or of its tokens: numbers without a pattern, of length 1 together."""
    said = text.encode() if isinstance(text, str) else orjson.dumps(text)
    digest = hashlib.shake_128(said).digest(2 * dimensions)
    # Odd numbers, so that none is 0 and there is a length.
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
