"""Parts of messages requests, and their translations for a chat upstream."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.records import Target
from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.kit import EXCHANGE, TARGET, make_request

USER: Json = {"role": "user", "content": "hi"}
TOOL: Json = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
FUNCTION: Json = {"name": "f", "parameters": {"type": "object", "properties": {}}}
PDF: Json = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
PDF_URL = "data:application/pdf;base64,JVBE"
PNG: Json = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
PNG_PART: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
CACHED: Json = {"cache_control": {"type": "ephemeral"}}
BILLING: Json = {
    "type": "text",
    "text": "x-anthropic-billing-header: cc_version=2.1; cch=1",
}


def write(target: Target = TARGET, **fields: Any) -> Json:
    body = {"model": "our/model", "max_tokens": 9, "messages": [USER], **fields}
    written: Json = json.loads(EXCHANGE.write_request(make_request(body), target).data)
    return written


def write_messages(*messages: Json, **fields: Any) -> list[Json]:
    written: list[Json] = write(messages=list(messages), **fields)["messages"]
    return written


def text(said: str, **fields: Any) -> Json:
    return {"type": "text", "text": said, **fields}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def tool_use(identity: str = "t1", name: str = "f", **fields: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": {}, **fields}


def tool_result(identity: str = "t1", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": identity, **fields}
