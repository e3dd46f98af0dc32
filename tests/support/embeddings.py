"""The embeddings API from outside: requests, providers' replies, and vectors read back."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any, Final

EMBEDDINGS: Final = "/v1/embeddings"
USAGE: Final = {"prompt_tokens": 11, "total_tokens": 11}
VECTORS: Final = ((0.5, -0.25, 1.0), (0.0, 2.0, -1e-3))

Json = dict[str, Any]
Vector = Sequence[float]


def embed(model: str, text: object = "Sag was.", **extra: Any) -> Json:
    """Make a request."""
    return {"model": model, "input": text} | extra


def embeddings(
    vectors: Sequence[Vector] = VECTORS,
    *,
    packed: bool = False,
    usage: object = USAGE,
    **extra: Any,
) -> Json:
    """Make a reply; `usage=None` leaves it out, `extra` changes the top level."""
    items = [
        {"object": "embedding", "index": index, "embedding": pack(one) if packed else list(one)}
        for index, one in enumerate(vectors)
    ]
    value: Json = {"object": "list", "data": items, "model": "upstream-embed-2026"}
    if usage is not None:
        value["usage"] = usage
    return value | extra


def pack(vector: Vector) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def unpack(text: str) -> tuple[float, ...]:
    data = base64.b64decode(text, validate=True)
    return struct.unpack(f"<{len(data) // 4}f", data)


def round_trip(vector: Vector) -> tuple[float, ...]:
    """Return the numbers as float32 has them."""
    return unpack(pack(vector))
