"""Parts of Responses requests, and their translations for a chat upstream."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.exchanges import CALLERS
from gateway.dialects.records import Target
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.kit import EXCHANGE, TARGET, make_request

TOOL: Json = {
    "type": "function",
    "name": "f",
    "description": "Does f.",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
}
FUNCTION: Json = {
    "name": "f",
    "description": "Does f.",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
}
PNG_URL = "data:image/png;base64,iVBO"
PNG: Json = {"type": "input_image", "image_url": PNG_URL, "detail": "auto"}
PNG_PART: Json = {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "auto"}}


def write(target: Target = TARGET, /, **fields: Any) -> Json:
    """Return the chat request, which our own validation of chat callers takes as well."""
    body = {"model": "our/model", "input": "hi", **fields}
    data = EXCHANGE.write_request(make_request(body), target).data
    CALLERS["chat"].parse_request(data)
    written: Json = json.loads(data)
    return written


def write_messages(*items: Json, **fields: Any) -> list[Json]:
    written: list[Json] = write(input=list(items), **fields)["messages"]
    return written


def text(said: str, kind: str = "input_text") -> Json:
    return {"type": kind, "text": said}


def message(role: str, content: Any) -> Json:
    return {"type": "message", "role": role, "content": content}


def function_call(identity: str = "c1", name: str = "f", **fields: Any) -> Json:
    call = {"type": "function_call", "call_id": identity, "name": name, "arguments": "{}"}
    return {**call, **fields}


def custom_call(identity: str, name: str, given: str, **fields: Any) -> Json:
    call = {"type": "custom_tool_call", "call_id": identity, "name": name, "input": given}
    return {**call, **fields}


def output(identity: str = "c1", said: Any = "done", kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": identity, "output": said}


def chat_call(identity: str = "c1", name: str = "f", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def called(*calls: Json, content: str | None = None) -> Json:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(identity: str = "c1", content: str = "done") -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def user(content: Any) -> Json:
    return {"role": "user", "content": content}
