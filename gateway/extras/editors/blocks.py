"""Blocks, tools and instructions of Anthropic's Messages API in a chat request, written as chat."""

from __future__ import annotations

from itertools import chain
from typing import Final

from gateway.dialects.chat import writer
from gateway.dialects.wire.fields import Field, dump_request, maybe_kind, refuse_part
from gateway.dialects.wire.jsonbytes import get_list, get_object
from gateway.dialects.wire.records import Json

_BLOCKS: Final = ("redacted_thinking", "tool_result", "tool_use")
"""Blocks by which a message is known to be in Anthropic's form."""
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
"""Chat's word for each choice among tools."""
_MARK: Final = "cache_control"
_FUNCTION: Final = {
    "name": "name",
    "description": "description",
    "strict": "strict",
    "input_schema": "parameters",
}
"""Chat's name for each member of a tool that belongs to its function."""


def has_blocks(body: Json) -> bool:
    """Return whether a request has `system`, a tool with `input_schema`, or blocks of tools or thinking."""
    if body.get("system"):
        return True
    for tool in get_list(body, "tools"):
        if type(tool) is dict and "input_schema" in tool:
            return True
    for message in get_list(body, "messages"):
        content = message.get("content") if type(message) is dict else None
        if type(content) is list:
            for part in content:
                if type(part) is dict and part.get("type") in _BLOCKS:
                    return True
    return False


def write_blocks(body: Json) -> Json:
    """Write a request's blocks, tools and `system` as chat. Raises BadRequest, naming the block."""
    chat = {name: value for name, value in body.items() if name != "system"}
    if type(body["messages"]) is list:
        system = body.get("system")
        instructions = [{"role": "system", "content": system}] if system else []
        written = map(_write_message, Field(body)["messages"].read_items())
        chat["messages"] = [*instructions, *chain.from_iterable(written)]
    if type(body.get("tools")) is list:
        chat["tools"] = [*map(_write_tool, body["tools"])]
    return chat | _write_choice(get_object(body, "tool_choice"))


def _write_message(message: Field) -> list[Json]:
    """Write a message as one or more: the results of tools come first, as a chat provider wants them."""
    fields = message.value
    if type(fields) is not dict or type(fields.get("content")) is not list:
        return [fields]
    results: list[Json] = []
    parts: list[Json] = []
    calls = [*get_list(fields, "tool_calls")]
    # Some clients write a call in the forms of both APIs.
    named = (call.get("id") for call in calls if type(call) is dict)
    identities = {identity for identity in named if type(identity) is str}
    for block in message["content"].read_items():
        match block.value:
            case {"type": "tool_use"}:
                call = _write_call(block)
                if call["id"] not in identities:
                    calls.append(call)
            case {"type": "tool_result"}:
                result, files = _write_result(block)
                results.append(result)
                parts += files
            case {"type": "redacted_thinking"} | {"type": "thinking", "signature": _}:
                pass  # only its vendor can read it, in its own API
            case part:
                parts.append(_write_part(part))
    if results and not (parts or calls):
        return results
    rest = {**fields, "content": parts or (None if calls else "")}
    return [*results, {**rest, "tool_calls": calls} if calls else rest]


def _write_call(block: Field) -> Json:
    arguments = block.get("input") or {}
    text = arguments if type(arguments) is str else dump_request(arguments).decode()
    function = {"name": block["name"].read_text(), "arguments": text}
    return {"id": block["id"].read_text(), "type": "function", "function": function}


def _write_result(block: Field) -> tuple[Json, list[Json]]:
    """Write the tool message, and the parts that have to go into a user message behind it."""
    content = block["content"]
    if type(content.value) is list:
        parts = [*map(_write_inner_part, content.read_items())]
    else:
        parts = [_make_text(content.read_string())] if content.value else []
    prefix = writer.ERROR_PREFIX if block.get("is_error") is True else ""
    result, files = writer.make_result(block["tool_use_id"].read_text(), parts, prefix)
    if mark := block.get(_MARK):
        result["content"] = [{**_make_text(result["content"]), _MARK: mark}]
    return result, files


def _write_inner_part(part: Field) -> Json:
    """Write a part of a result. Raises BadRequest for what is no part: nothing else names its place."""
    if maybe_kind(part.value) is None:
        raise refuse_part(part.name, part.value)
    return _write_part(part.value)


def _make_text(text: str) -> Json:
    return {"type": "text", "text": text}


def _write_part(part: Json) -> Json:
    match part:
        case {"type": "image", "source": {"type": "url", "url": url}, **beside}:
            return {**beside, "type": "image_url", "image_url": {"url": url}}
        case {"type": "image", "source": {"media_type": str(kind), "data": str(data)}, **beside}:
            url = f"data:{kind};base64,{data}"
            return {**beside, "type": "image_url", "image_url": {"url": url}}
        case _:
            return part


def _write_tool(tool: Json) -> Json:
    if type(tool) is not dict or "input_schema" not in tool:
        return tool
    function = {_FUNCTION[name]: tool[name] for name in _FUNCTION if name in tool}
    mark = {_MARK: tool[_MARK]} if _MARK in tool else {}
    return {"type": "function", "function": function, **mark}


def _write_choice(choice: Json) -> Json:
    """Write the choice among tools; chat says beside it whether several calls may stand in a reply."""
    match choice:
        case {"type": "tool", "name": name}:
            chat: Json = {"tool_choice": {"type": "function", "function": {"name": name}}}
        case {"type": "auto" | "any" | "none" as word}:
            chat = {"tool_choice": _CHOICES[word]}
        case _:
            return {}
    if choice.get("disable_parallel_tool_use") is True:
        chat["parallel_tool_calls"] = False
    return chat
