"""The embedded provider's embeddings: vectors made of hashes, so that equal texts have equal ones.

Nothing else about them means anything: two texts that differ in one letter are no nearer than others.
"""

from __future__ import annotations

import hashlib
import math
import struct
from binascii import b2a_base64
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from gateway.errors import BadRequest

DIMENSIONS: Final = 64
"""Numbers of a vector if the caller does not say how many."""
MAX_DIMENSIONS: Final = 1024
"""Numbers of a vector, so that a trial stays small."""
TURN: Final = 16
"""Vectors of a piece, which are made before others get their turn; the largest take 2 ms."""

Json = dict[str, Any]


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
