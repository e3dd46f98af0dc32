"""The embedded provider's answer: a picture of one pixel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import orjson

from gateway.dialects.wire.records import Json

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
