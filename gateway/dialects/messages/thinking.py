"""Thinking of earlier turns: its provider takes it back as it signed it, and nobody else does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.dialects.records import Json
from gateway.dialects.wire import ANY_TAG, get_list

THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def maybe_thinking(block: Any) -> Json | None:
    """Return a block of thinking as its provider takes it back; None for what nobody signed."""
    match block:
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
            return {"type": "thinking", "thinking": text, "signature": signature}
        case {"type": "redacted_thinking", "data": str(data)} if data:
            return {"type": "redacted_thinking", "data": data}
        case _:
            return None


def may_think(turns: Sequence[Any]) -> bool:
    """Return whether thinking with a budget may be on: a last turn with calls begins with thinking.

    Anthropic refuses others: "Expected `thinking` or `redacted_thinking`, but found `tool_use`".
    """
    spoken = (one for one in reversed(turns) if isinstance(one, dict) and one["role"] != "user")
    last = next(spoken, {})
    kinds = [block.get("type") for block in get_list(last, "content") if isinstance(block, dict)]
    return "tool_use" not in kinds or kinds[0] in THINKING


def drop_foreign(body: Json) -> Json:
    """Leave out of a request the thinking that other providers made or nobody signed."""
    messages = body["messages"]
    kept = [_drop(message) for message in messages]
    if all(ours is given for ours, given in zip(kept, messages, strict=True)):
        return body
    turns = [message for message in kept if message["content"] != []]
    edited = {**body, "messages": turns}
    if not may_think(turns):
        edited.pop("thinking", None)
    return edited


def _drop(message: Json) -> Json:
    content = message["content"]
    if message["role"] != "assistant" or type(content) is not list:
        return message
    kept = [block for block in content if not _is_foreign(block)]
    return message if len(kept) == len(content) else {**message, "content": kept}


def _is_foreign(block: Any) -> bool:
    if not isinstance(block, dict) or block.get("type") not in THINKING:
        return False
    signed = block.get("signature") or block.get("data")
    return not signed or str(signed).startswith(ANY_TAG)
