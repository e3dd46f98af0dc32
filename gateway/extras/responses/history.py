"""Earlier items and tools as a Responses upstream takes them.

Sealed content (reasoning and summaries) goes to the caller with the tag of its provider, and back only to
that provider: another one would refuse the whole request. Tools without a price are left out, and refused
only if the caller forces one, since agents such as Codex declare them in every request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from gateway.base.errors import BadRequest
from gateway.dialects.messages.history import read_arguments, read_input
from gateway.dialects.wire.billed import ANY_TOOL, is_open, list_families, refuse
from gateway.dialects.wire.call_ids import HistoryIds, maybe_id
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import get_list, get_text
from gateway.dialects.wire.records import Json, Target
from gateway.dialects.wire.seals import ANY_TAG, is_ours
from gateway.extras.responses.compaction import maybe_summary

KEY: Final = "encrypted_content"
_MEMBER: Final = re.compile(rb'("encrypted_content"\s*:\s*")(?!")')
"""A match is always a member with a text: inside a string its quotes would be escaped."""
SUMMARIES: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Types of items that replace a whole conversation, so they cannot be left out."""


def mend_arguments(text: str) -> str:
    """Return the text of arguments that are an object; put others into one.

    vLLM and llama.cpp parse those of earlier turns, and refuse a conversation for good if they cannot.
    """
    return (
        text if isinstance(read_arguments(text), dict) else orjson.dumps(read_input(text)).decode()
    )


def maybe_reasoning(item: object, tag: str = "") -> Json | None:
    """Return an item of reasoning as its provider takes it back, tagged; None if it is not encrypted.

    Its id is left out, so that the provider does not require the items that followed it.
    """
    match item:
        case {"type": "reasoning", "summary": summary, "encrypted_content": str(sealed)} if sealed:
            return {"type": "reasoning", "summary": summary, KEY: tag + sealed}
        case _:
            return None


def maybe_phase(item: object) -> Json | None:
    """Return the phase of a message in its turn (`commentary`, `final_answer`); None for other items.

    OpenAI's models do worse if the phase does not come back with the message.
    """
    match item:
        case {"type": "message", "phase": str(phase)} if phase:
            return {"type": "message", "phase": phase}
        case _:
            return None


def tag_sealed(text: bytes, tag: str) -> bytes:
    """Put the tag before all sealed content in a JSON text."""
    if b'"encrypted_content"' not in text:
        return text
    return _MEMBER.sub(rb"\g<1>" + tag.encode(), text)


def untag_items(items: list[Json], tag: str, tools: object = None) -> list[Json]:
    """Return the items of an `input` that the provider of a tag can read, as it sealed them.

    Items that do not follow reasoning lose their ids: OpenAI may take an id as a sign that reasoning precedes
    it. A summary that the gateway made becomes text. Raises BadRequest for a summary of another provider.
    """
    kept: list[Json] = []
    for item in Field(items, "input").read_items():
        if (opened := _maybe_untag(item.value, tag)) is not None:
            kept.append(opened)
        elif get_text(item.value, "type") in SUMMARIES:
            if (text := maybe_summary(item.value)) is None:
                raise refuse_summary(item)
            kept.append({"type": "message", "role": "user", "content": text})
    ids = HistoryIds(tag, tools)
    return [_write_id(item, ids) for item in _drop_ids(kept)]


def _write_id(item: Json, ids: HistoryIds) -> Json:
    """Write the id of a call or, in an output, the id of its call; and the name of a call."""
    identity, kind = maybe_id(item, "call_id"), item.get("type")
    if identity is None or (not identity and kind not in _CALLS):
        if kind != "reasoning" and item.get("role") != "assistant":
            ids.answered = True
        return item
    is_result = str(kind).endswith("_output")
    written = ids.write_result(identity) if is_result else ids.write_call(identity)
    edited = item if written == identity else {**item, "call_id": written}
    name = item.get("name")
    if not isinstance(name, str) or (named := ids.write_name(name)) == name:
        return edited
    return {**edited, "name": named}


def _drop_ids(items: list[Json]) -> Iterator[Json]:
    is_behind = False
    for item in items:
        kind = item.get("type", "message")
        if kind not in _LINKED or item.get("role", "assistant") != "assistant":
            is_behind = kind == "reasoning"
        elif "id" in item and not is_behind:
            yield {name: item[name] for name in item if name != "id"}
            continue
        yield item


_CALLS: Final = frozenset(
    f"{kind}{end}" for kind in ("custom_tool_call", "function_call") for end in ("", "_output")
)
_LINKED: Final = frozenset({"custom_tool_call", "function_call", "message"})


def refuse_summary(item: Field) -> BadRequest:
    """Return the error for a summary that the upstream cannot read."""
    return item.refuse(
        "This summary of the conversation can be read by the provider alone that made it. Send the "
        "conversation itself, or ask for a model of that provider."
    )


def _maybe_untag(item: Json, tag: str) -> Json | None:
    """Return an item as the provider of this tag sealed it; an item without sealed content is unchanged.

    None if another sealed it or all of its parts, or for reasoning that nobody sealed.
    """
    sealed, parts = item.get(KEY), item.get("content")
    if isinstance(sealed, str) and sealed:
        may_read = sealed.startswith(tag) and not is_ours(sealed, tag)
        return {**item, KEY: sealed.removeprefix(tag)} if may_read else None
    if item.get("type") == "reasoning":
        return None  # the provider stored nothing, so it could not find it by its id
    if isinstance(parts, list) and any(map(_is_tagged, parts)):
        kept = [
            {**part, KEY: part[KEY].removeprefix(tag)} if _is_tagged(part) else part
            for part in parts
            if not _is_tagged(part) or part[KEY].startswith(tag)
        ]
        return {**item, "content": kept} if kept else None
    return item


def _is_tagged(part: object) -> bool:
    """Return whether a part, such as one agent's message to another, was sealed behind this gateway."""
    return isinstance(part, dict) and str(part.get(KEY)).startswith(ANY_TAG)


def strip_tools(body: Json, target: Target) -> Json:
    """Leave out tools that the provider would run itself and that have no price, and a choice of them."""
    if ANY_TOOL in target.allow:
        return body
    edited, items = dict(body), body.get("input")
    if isinstance(items, list) and any(map(_declares, items)):
        edited["input"] = [
            {**item, "tools": _pick(item["tools"], target)} if _declares(item) else item
            for item in items
        ]
    tools = get_list(body, "tools")
    if not tools:
        return edited
    edited["tools"] = kept = _pick(tools, target)
    if not kept:
        edited.pop("tools")
        if edited.pop("tool_choice", None) not in _LENIENT:
            raise _refuse_forced()
    elif kept != tools:
        _edit_choice(edited, target)
    return edited


def _declares(item: object) -> bool:
    """Return whether an item of the input declares tools."""
    return isinstance(item, dict) and isinstance(item.get("tools"), list)


def _pick(tools: list[Any], target: Target) -> list[Any]:
    kept = []
    for tool in tools:
        if not _may_pass(tool, target):
            continue
        kept.append({**tool, "tools": _pick(tool["tools"], target)} if _declares(tool) else tool)
    return kept


def _edit_choice(body: Json, target: Target) -> None:
    """Leave out tools that were left out from the choice as well."""
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return
    if _declares(choice):
        choice = {**choice, "tools": _pick(choice["tools"], target)}
        body["tool_choice"] = choice
        if choice["tools"]:
            return
    elif _may_pass(choice, target):
        return
    if choice.get("mode") != "auto":
        raise _refuse_forced()
    del body["tool_choice"]


def _refuse_forced() -> BadRequest:
    why = "It forces a tool that the provider would run itself and charge for"
    return refuse("tool_choice", None, why)


_LENIENT: Final = (None, "auto", "none")


def _may_pass(tool: object, target: Target) -> bool:
    return all(is_open(family, target) for family in list_families(tool))
