"""Events that carry the name of their type, as Anthropic's API and OpenAI's Responses API send them."""

from __future__ import annotations

from gateway.dialects.records import Event, Json
from gateway.dialects.wire.jsonbytes import dumps_lenient


def render_event(event: Json) -> bytes:
    """Write one event with its name: the SDKs drop events that have none."""
    return b"event: %b\ndata: %b\n\n" % (
        event["type"].encode("utf-8", "replace"),
        dumps_lenient(event),
    )


def is_canonical(block: bytes, event: Event, kind: str) -> bool:
    """Return whether a block is an `event:` and a `data:` line alone: SDKs stumble on others."""
    lines = [line for line in block.splitlines() if line]
    return (
        len(lines) == 2  # noqa: PLR2004 - the two lines
        and event.name == kind
        and lines[0].startswith(b"event:")
        and lines[1].startswith(b"data:")
    )
