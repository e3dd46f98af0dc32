"""Events of the messages API, as a provider sends them."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.dialects.chat.kit import Json


def frame(*events: Json) -> bytes:
    return b"".join(frame_line(json.dumps(event).encode(), event["type"]) for event in events)


def frame_line(line: bytes, name: str) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), line)


PING: Final = {"type": "ping"}


STOP: Final = {"type": "message_stop"}


def start(**usage: Any) -> Json:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    return {"type": "message_start", "message": {**message, "usage": usage}}


def open_block(index: int, kind: str = "text", **fields: Any) -> Json:
    block = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> Json:
    held = {"type": f"{kind}_delta", **fields}
    return {"type": "content_block_delta", "index": index, "delta": held}


def say(text: str, index: int = 0) -> Json:
    return delta(index, "text", text=text)


def close(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None = "end_turn", details: Json | None = None, **usage: Any) -> Json:
    held = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    return {"type": "message_delta", "delta": held, "usage": usage}
