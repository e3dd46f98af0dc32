"""Sealed content: reasoning and summaries that only the provider who encrypted them can read.

What a provider seals leaves here with a tag of the provider, and goes back to that one alone: another
would refuse the whole request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gateway.dialects.records import Json
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.seals import ANY_TAG, is_ours
from gateway.errors import BadRequest

KEY: Final = "encrypted_content"
_MEMBER: Final = re.compile(rb'("encrypted_content"\s*:\s*")(?!")')
"""A match is always a member with a text: inside a string its quotes would be escaped."""
SUMMARIES: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Types of items that stand for a whole conversation, so that none can be left out."""


def maybe_reasoning(item: Any, tag: str = "") -> Json | None:
    """Return an item of reasoning as its provider takes it back, tagged; None if nobody encrypted it.

    Without its id it stands alone: the items behind it need not follow.
    """
    match item:
        case {"type": "reasoning", "summary": summary, "encrypted_content": str(sealed)} if sealed:
            return {"type": "reasoning", "summary": summary, KEY: tag + sealed}
        case _:
            return None


def tag_sealed(text: bytes, tag: str) -> bytes:
    """Put the tag before all sealed content in a JSON text."""
    if b'"encrypted_content"' not in text:
        return text
    return _MEMBER.sub(rb"\g<1>" + tag.encode(), text)


def untag_items(items: list[Any], tag: str) -> list[Any]:
    """Return the items of an `input` that the provider of a tag can read, as it sealed them.

    Items behind no reasoning lose their ids: to OpenAI they may say that some precedes them.
    Raises BadRequest for another's summary of a conversation.
    """
    kept: list[Any] = []
    for item in Field(items, "input").read_items():
        if (opened := _maybe_untag(item.value, tag)) is not None:
            kept.append(opened)
        elif item.get("type") in SUMMARIES:
            raise refuse_summary(item)
    return [*_drop_ids(kept)]


def _drop_ids(items: list[Any]) -> Iterator[Any]:
    is_behind = False
    for item in items:
        kind = item.get("type", "message") if isinstance(item, dict) else ""
        if kind not in _LINKED or item.get("role", "assistant") != "assistant":
            is_behind = kind == "reasoning"
        elif "id" in item and not is_behind:
            yield {name: item[name] for name in item if name != "id"}
            continue
        yield item


_LINKED: Final = frozenset({"custom_tool_call", "function_call", "message"})


def refuse_summary(item: Field) -> BadRequest:
    """Return the error for a summary that the upstream cannot read."""
    return item.refuse(
        "This summary of the conversation can be read by the provider alone that made it. Send the "
        "conversation itself, or ask for a model of that provider."
    )


def _maybe_untag(item: Any, tag: str) -> Any:
    """Return an item as it was sealed; None if another or nobody sealed it, or all of its parts."""
    if not isinstance(item, dict):
        return item
    sealed, parts = item.get(KEY), item.get("content")
    if isinstance(sealed, str) and sealed:
        may_read = sealed.startswith(tag) and not is_ours(sealed, tag)
        return {**item, KEY: sealed.removeprefix(tag)} if may_read else None
    if item.get("type") == "reasoning":
        return None  # the provider kept nothing of it: it would not find it by its id
    if isinstance(parts, list) and any(map(_is_tagged, parts)):
        kept = [_untag_part(part, tag) for part in parts if _may_read(part, tag)]
        return {**item, "content": kept} if kept else None
    return item


def _is_tagged(part: Any) -> bool:
    """Return whether a part, such as what one agent says to another, was sealed behind this gateway."""
    return isinstance(part, dict) and str(part.get(KEY)).startswith(ANY_TAG)


def _may_read(part: Any, tag: str) -> bool:
    return not _is_tagged(part) or part[KEY].startswith(tag)


def _untag_part(part: Any, tag: str) -> Any:
    return {**part, KEY: part[KEY].removeprefix(tag)} if _is_tagged(part) else part
