"""The conversation of a messages request as the messages of a chat request. No I/O.

wire.md §5.2. One turn there may be several messages here: the results of tools come first, as
`tool` messages, then what else the user said. They are put in front of everything the user said
since the assistant's turn, because a chat upstream wants them right behind the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.dialects.checks import dump_request
from gateway.dialects.to_chat_fields import (
    Json,
    cannot_carry,
    name_type,
    read_list,
    read_object,
    read_text,
    refuse,
)
from gateway.dialects.to_chat_parts import (
    BLOCK_SEPARATOR,
    read_joined_text,
    read_part,
    read_parts,
    read_texts,
)
from gateway.dialects.to_chat_tools import check_tool_name

BILLING_HEADER: Final = "x-anthropic-billing-header:"
"""How a system block begins that a coding agent adds for the vendor's own accounting."""

ERROR_PREFIX: Final = "Error: "
"""A chat tool message has no field that says the tool failed."""

FILES_NOTE: Final = "[The images and documents of this result are in the user message below.]"
"""In a tool message, which can hold text alone, for the parts that were moved."""

_DROPPED_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
"""Reasoning in the history: signed for the vendor that wrote it, of no use elsewhere."""


def write_messages(system: Any, messages: Any) -> list[Json]:
    """The chat messages of a conversation. Raises BadRequest, naming the field."""
    out: list[Json] = _write_system(system)
    said: list[Json] = []  # the user's own messages since the last turn of another role
    for index, message in enumerate(read_list("messages", messages)):
        where = f"messages.{index}"
        role = read_text(f"{where}.role", read_object(where, message).get("role"))
        content, at = message.get("content"), f"{where}.content"
        if role == "user":
            results, user = _write_user(at, content)
            out += results
            said += user
            continue
        if role not in _WRITERS:
            raise refuse(f"{where}.role", "must be 'user', 'assistant' or 'system'.")
        out += said
        said = []
        _append(out, _WRITERS[role](at, content))
    return out + said


def _write_system(system: Any) -> list[Json]:
    """One system message of all blocks: some chat upstreams take no parts there."""
    if system is None:
        return []
    texts = read_texts("system", system)
    if not isinstance(system, str):
        texts = [text for text in texts if not text.startswith(BILLING_HEADER)]
    joined = BLOCK_SEPARATOR.join(texts)
    return [{"role": "system", "content": joined}] if joined else []


def _write_later_system(where: str, content: Any) -> Json:
    return {"role": "system", "content": read_joined_text(where, content)}


def _write_user(where: str, content: Any) -> tuple[list[Json], list[Json]]:
    """The tool messages of a user turn, and the user message that is left, if any."""
    if isinstance(content, str):
        return [], [{"role": "user", "content": content}]
    results: list[Json] = []
    moved: list[Json] = []
    parts: list[Json] = []
    for index, block in enumerate(read_list(where, content)):
        at = f"{where}.{index}"
        if read_object(at, block).get("type") == "tool_result":
            result, files = _write_tool_result(at, block)
            results.append(result)
            moved += files
        else:
            parts += read_part(at, block)
    parts = moved + parts
    if results and not parts:
        return results, []
    return results, [{"role": "user", "content": _pack(parts)}]


def _pack(parts: list[Json]) -> str | list[Json]:
    """A lone text as a plain string, which every chat upstream takes."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def _write_tool_result(where: str, block: Json) -> tuple[Json, list[Json]]:
    """The tool message, and the parts that have to go into a user message behind it."""
    identity = read_text(f"{where}.tool_use_id", block.get("tool_use_id"))
    content = block.get("content")
    parts = [] if content is None else read_parts(f"{where}.content", content)
    texts = [str(part["text"]) for part in parts if part["type"] == "text"]
    files = [part for part in parts if part["type"] != "text"]
    if files:
        texts.append(FILES_NOTE)
        files.insert(0, {"type": "text", "text": f"[From the result of tool call {identity}:]"})
    text = BLOCK_SEPARATOR.join(texts)
    if block.get("is_error") is True:
        text = ERROR_PREFIX + text
    return {"role": "tool", "tool_call_id": identity, "content": text}, files


def _write_assistant(where: str, content: Any) -> Json:
    """Text in one string, since its blocks are one flow, and the tool calls behind it."""
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    text = ""
    calls: list[Json] = []
    for index, block in enumerate(read_list(where, content)):
        at = f"{where}.{index}"
        kind = read_text(f"{at}.type", read_object(at, block).get("type"))
        if kind == "text":
            text += read_text(f"{at}.text", block.get("text"))
        elif kind == "tool_use":
            calls.append(_write_tool_call(at, block))
        elif kind not in _DROPPED_BLOCKS:
            raise cannot_carry(at, name_type("in an assistant's turn a content block", kind))
    if not calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _write_tool_call(where: str, block: Json) -> Json:
    name = check_tool_name(f"{where}.name", block.get("name"))
    arguments = read_object(f"{where}.input", block.get("input"))
    return {
        "id": read_text(f"{where}.id", block.get("id")),
        "type": "function",
        "function": {"name": name, "arguments": dump_request(arguments).decode()},
    }


def _append(out: list[Json], message: Json) -> None:
    """Consecutive assistant turns are one turn: calls split between two could not be answered."""
    last = out[-1] if out else {}
    if message["role"] != "assistant" or last.get("role") != "assistant":
        out.append(message)
        return
    texts = filter(None, (last["content"], message["content"]))
    calls = [*last.get("tool_calls", ()), *message.get("tool_calls", ())]
    merged: Json = {"role": "assistant", "content": BLOCK_SEPARATOR.join(texts)}
    if calls:
        merged |= {"content": merged["content"] or None, "tool_calls": calls}
    out[-1] = merged


_WRITERS: Final[dict[str, Callable[[str, Any], Json]]] = {
    "assistant": _write_assistant,
    "system": _write_later_system,
}
