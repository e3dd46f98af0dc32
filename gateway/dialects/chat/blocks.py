"""Blocks, tools and instructions of Anthropic's Messages API in a chat request, written as chat.

Cursor sends them for models whose name has `claude` in it, and reads chat's replies.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.chat import writer
from gateway.dialects.wire.fields import Field, dump_request, maybe_kind, refuse_part
from gateway.dialects.wire.jsonbytes import get_list
from gateway.dialects.wire.records import Json

_KINDS: Final = ("redacted_thinking", "tool_result", "tool_use")
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


def has_blocks(body: Json) -> bool:
    """Return whether a request has what `write_blocks` writes anew."""
    if body.get("system"):
        return True
    for tool in get_list(body, "tools"):
        if type(tool) is dict and "input_schema" in tool:
            return True
    for message in get_list(body, "messages"):
        content = message.get("content") if type(message) is dict else None
        if type(content) is list:
            for part in content:
                if type(part) is dict and part.get("type") in _KINDS:
                    return True
    return False


def write_blocks(body: Json) -> Json:
    """Write a request's blocks, tools and `system` as chat. Raises BadRequest, naming the block."""
    made = {name: value for name, value in body.items() if name != "system"}
    if type(body["messages"]) is list:
        told = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        items = Field(body)["messages"].read_items()
        made["messages"] = [*told, *(one for item in items for one in _write_message(item))]
    if type(body.get("tools")) is list:
        made["tools"] = [*map(_write_tool, body["tools"])]
    match body.get("tool_choice"):
        case {"type": "tool", "name": name}:
            made["tool_choice"] = {"type": "function", "function": {"name": name}}
        case {"type": "auto" | "any" | "none" as word}:
            made["tool_choice"] = _CHOICES[word]
        case _:
            return made
    if body["tool_choice"].get("disable_parallel_tool_use") is True:
        made["parallel_tool_calls"] = False
    return made


def _write_message(message: Field) -> list[Json]:
    """Write a message as one or more: the results of tools come first, as a chat provider wants them."""
    held = message.value
    if type(held) is not dict or type(held.get("content")) is not list:
        return [held]
    results: list[Json] = []
    parts: list[Json] = []
    calls = [*get_list(held, "tool_calls")]
    # Some clients tell a call in both forms.
    known = [call.get("id") for call in calls if type(call) is dict]
    for block in message["content"].read_items():
        match block.value:
            case {"type": "tool_use"}:
                if block.get("id") not in known:
                    calls.append(_write_call(block))
            case {"type": "tool_result"}:
                result, files = _write_result(block)
                results.append(result)
                parts += files
            case {"type": "redacted_thinking"} | {"type": "thinking", "signature": _}:
                pass  # only its vendor can read it, in its own API
            case part:
                parts.append(_write_part(part))
    if results and not parts:
        return results
    said = {**held, "content": parts or (None if calls else "")}
    return [*results, {**said, "tool_calls": calls} if calls else said]


def _write_call(block: Field) -> Json:
    given = block.get("input") or {}
    arguments = given if type(given) is str else dump_request(given).decode()
    function = {"name": block["name"].read_text(), "arguments": arguments}
    return {"id": block["id"].read_text(), "type": "function", "function": function}


def _write_result(block: Field) -> tuple[Json, list[Json]]:
    """Write the tool message, and the parts that have to go into a user message behind it."""
    content = block["content"]
    if type(content.value) is list:
        parts = [*map(_write_inner, content.read_items())]
    else:
        parts = [_make_text(content.read_string())] if content.value else []
    prefix = writer.ERROR_PREFIX if block.get("is_error") is True else ""
    result, files = writer.make_result(block["tool_use_id"].read_text(), parts, prefix)
    if block.get(_MARK):
        result["content"] = [{**_make_text(result["content"]), _MARK: block.get(_MARK)}]
    return result, files


def _write_inner(part: Field) -> Json:
    if maybe_kind(part.value) is None:
        raise refuse_part(part.name, part.value)
    return _write_part(part.value)


def _make_text(text: str) -> Json:
    return {"type": "text", "text": text}


def _write_part(part: Json) -> Json:
    match part:
        case {"type": "image", "source": {"type": "url", "url": url}, **beside}:
            return {**beside, "type": "image_url", "image_url": {"url": url}}
        case {"type": "image", "source": {"media_type": kind, "data": data}, **beside}:
            url = f"data:{kind};base64,{data}"
            return {**beside, "type": "image_url", "image_url": {"url": url}}
        case _:
            return part


def _write_tool(tool: Json) -> Json:
    if type(tool) is not dict or "input_schema" not in tool:
        return tool
    held = {_MEMBERS[name]: tool[name] for name in _MEMBERS if name in tool}
    mark = {_MARK: tool[_MARK]} if _MARK in tool else {}
    return {"type": "function", "function": held, **mark}


_MARK: Final = "cache_control"
_MEMBERS: Final = {
    **{name: name for name in ("name", "description", "strict")},
    "input_schema": "parameters",
}
