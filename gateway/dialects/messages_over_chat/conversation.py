"""A messages conversation as chat messages.

One turn there may be several messages here: the results of tools come first, as `tool` messages,
then what else the user said. They are put in front of everything the user said since the
assistant's turn, because a chat upstream wants them right behind the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.chat.parts import BLOCK_SEPARATOR, make_result, pack_parts
from gateway.dialects.chat.state import STATE, add_state
from gateway.dialects.messages.caller import MessagesField
from gateway.dialects.messages.history import THINKING
from gateway.dialects.messages_over_chat.content import (
    read_texts,
    translate_block,
    translate_content,
)
from gateway.dialects.messages_over_chat.tools import read_tool_name
from gateway.dialects.records import Json
from gateway.dialects.wire.fields import dump_request
from gateway.dialects.wire.jsonbytes import get_text

BILLING_HEADER: Final = "x-anthropic-billing-header:"
"""The beginning of a system block that a coding agent adds for the vendor's own accounting."""

ERROR_PREFIX: Final = "Error: "
"""The beginning of a failed tool's message: chat has no field for the failure."""


def translate_conversation(
    system: MessagesField, messages: MessagesField, *, links: bool
) -> list[Json]:
    """Write the chat messages of a conversation; see `translate_content` for `links`.

    Raises BadRequest, naming the field.
    """
    out = _translate_system(system)
    said: list[Json] = []  # the user's own messages since the last turn of another role
    for message in messages.read_items():
        role = message["role"].read_string()
        if role == "user":
            results, user = _translate_user(message["content"], links=links)
            out += results
            said += user
            continue
        if role not in _TRANSLATORS:
            raise message["role"].refuse("must be 'user', 'assistant' or 'system'.")
        out += said
        said = []
        _append(out, _TRANSLATORS[role](message["content"]))
    return out + said


def _translate_system(system: MessagesField) -> list[Json]:
    """Write one system message of all blocks: some chat upstreams take no parts there, but marked ones."""
    if system.value is None:
        return []
    texts = read_texts(system)
    if not isinstance(system.value, str):
        texts = [text for text in texts if not text.startswith(BILLING_HEADER)]
        if any(block.mark for block in system.read_items()):
            parts = translate_content(system)
            kept = [part for part in parts if not part["text"].startswith(BILLING_HEADER)]
            return [{"role": "system", "content": kept}] if kept else []
    joined = BLOCK_SEPARATOR.join(texts)
    return [{"role": "system", "content": joined}] if joined else []


def _translate_later_system(content: MessagesField) -> Json:
    return {"role": "system", "content": BLOCK_SEPARATOR.join(read_texts(content))}


def _translate_user(content: MessagesField, *, links: bool) -> tuple[list[Json], list[Json]]:
    """Write the tool messages of a user turn, and the user message that is left, if any."""
    if isinstance(content.value, str):
        return [], [{"role": "user", "content": content.value}]
    results: list[Json] = []
    moved: list[Json] = []
    parts: list[Json] = []
    for block in content.read_items():
        if block.get("type") == "tool_result":
            result, files = _translate_tool_result(block, links=links)
            results.append(result)
            moved += files
        else:
            parts += translate_block(block, links=links)
    parts = moved + parts
    if results and not parts:
        return results, []
    return results, [{"role": "user", "content": pack_parts(parts)}]


def _translate_tool_result(block: MessagesField, *, links: bool) -> tuple[Json, list[Json]]:
    """Write the tool message, and the parts that have to go into a user message behind it."""
    identity = block["tool_use_id"].read_string()
    content = block["content"]
    parts = [] if content.value is None else translate_content(content, links=links)
    prefix = ERROR_PREFIX if block.get("is_error") is True else ""
    result, files = make_result(identity, parts, prefix)
    if block.mark:
        result["content"] = [{"type": "text", "text": result["content"], **block.mark}]
    return result, files


def _translate_assistant(content: MessagesField) -> Json:
    """Write the text as one string, since its blocks are one flow, and the tool calls behind it."""
    if isinstance(content.value, str):
        return {"role": "assistant", "content": content.value}
    text = reasoning = ""
    calls: list[Json] = []
    seals: list[str] = []
    for block in content.read_items():
        kind = block["type"].read_string()
        if kind == "text":
            text += block["text"].read_string()
        elif kind == "tool_use":
            calls.append(_translate_tool_use(block))
        elif kind in THINKING:
            reasoning += get_text(block.value, "thinking")
            seals.append(get_text(block.value, "signature") or get_text(block.value, "data"))
        else:
            raise block.refuse_type("in an assistant's turn a content block", kind)
    message: Json = {"role": "assistant", "content": text}
    if calls:
        message |= {"content": text or None, "tool_calls": calls}
    if seals:
        add_state(message, seals, [reasoning])
    return message


def _translate_tool_use(block: MessagesField) -> Json:
    arguments = dump_request(block["input"].read_object()).decode()
    return {
        "id": block["id"].read_string(),
        "type": "function",
        "function": {"name": read_tool_name(block["name"]), "arguments": arguments},
    }


def _append(out: list[Json], message: Json) -> None:
    """Append a message; assistant turns in a row become one, so that results follow all calls."""
    last = out[-1] if out else {}
    if message["role"] != "assistant" or last.get("role") != "assistant":
        out.append(message)
        return
    texts = filter(None, (last["content"], message["content"]))
    calls = [*last.get("tool_calls", ()), *message.get("tool_calls", ())]
    merged: Json = {"role": "assistant", "content": BLOCK_SEPARATOR.join(texts)}
    if calls:
        merged |= {"content": merged["content"] or None, "tool_calls": calls}
    if STATE in last:
        merged[STATE] = last[STATE]
    if held := message.get(STATE):
        add_state(merged, held["sealed"], held["reasoning"])
    out[-1] = merged


_TRANSLATORS: Final[dict[str, Callable[[MessagesField], Json]]] = {
    "assistant": _translate_assistant,
    "system": _translate_later_system,
}
