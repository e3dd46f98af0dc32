"""Earlier turns of a messages request in the form that its provider takes, and arguments of calls."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_not
from typing import Any, Final, NamedTuple
from zlib import crc32

import orjson

from gateway.dialects.wire.call_ids import HistoryIds
from gateway.dialects.wire.halves import mend_json
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text, maybe_loads
from gateway.dialects.wire.records import Json, Target
from gateway.dialects.wire.seals import ANY_TAG

WRAPPED_KEY: Final = "arguments"
"""The key under which arguments that are no object are put: a tool's input has to be an object."""


def read_arguments(text: str) -> object:
    """Read arguments as JSON; return None if the text is not JSON."""
    return maybe_loads(mend_json(text).encode())


def read_input(arguments: str) -> Json:
    """Read arguments as an object; no arguments are an empty object."""
    if not arguments.strip():
        return {}
    read = read_arguments(arguments)
    try:  # an integer beyond 64 bits could not be written again
        orjson.dumps(read)
    except TypeError:
        read = None
    return wrap_arguments(arguments if read is None else read)


def wrap_arguments(given: object) -> Json:
    """Put arguments that are no object into an object. The model wrote them, so they cannot be fixed."""
    return given if isinstance(given, dict) else {WRAPPED_KEY: given}


def shape_input(given: object) -> Json:
    """Return the input of an earlier call as an object. A client may send it as the string that it got."""
    if isinstance(given, str):
        return read_input(given)
    return {} if given is None else wrap_arguments(given)


THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def maybe_thinking(block: object) -> Json | None:
    """Return a thinking block as its provider accepts it back; None if it is not signed."""
    match block:
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
            return {"type": "thinking", "thinking": text, "signature": signature}
        case {"type": "redacted_thinking", "data": str(data)} if data:
            return {"type": "redacted_thinking", "data": data}
        case _:
            return None


class Place(NamedTuple):
    """A place in a reply, described by what came before it."""

    reply: str
    """The id of the request that the reply answers; "" if it was not noted."""
    chars: int = 0
    """Characters of text before it, except white space: clients trim that, and add it between texts."""
    digest: int = 0
    """The checksum of these characters."""
    calls: int = 0

    def add(self, text: str) -> Place:
        """Return the place after some more text."""
        words = "".join(text.split())
        digest = crc32(words.encode(errors="replace"), self.digest)
        return Place(self.reply, self.chars + len(words), digest, self.calls)


def note_place(thinking: Json, place: Place) -> Json:
    return {**thinking, "at": [*place]}


def maybe_placed(block: object) -> Json | None:
    """Return a thinking block with its `Place` as `at`; None if it is not signed."""
    thinking = maybe_thinking(block)
    match block:
        case {"at": [str(reply), int(chars), int(digest), int(calls)]} if thinking:
            return {**thinking, "at": Place(reply, chars, digest, calls)}
        case _:
            return thinking and {**thinking, "at": Place("")}


def may_think(turns: Sequence[Any]) -> bool:
    """Return whether thinking with a budget may be on: the last turn has no calls or begins with thinking.

    Anthropic refuses other turns: "Expected `thinking` or `redacted_thinking`, but found `tool_use`".
    """
    spoken = (one for one in reversed(turns) if one["role"] == "assistant")
    last: Json = next(spoken, {})
    kinds = [block.get("type") for block in get_list(last, "content") if isinstance(block, dict)]
    return "tool_use" not in kinds or kinds[0] in THINKING


def write_history(body: Json, target: Target) -> Json:
    """Return a request whose earlier turns the provider accepts, whoever made them.

    Thinking that other providers made or nobody signed is left out, and so are citations of pages that
    they found. Ids of calls are unique and have only characters that Anthropic takes.
    """
    ids = HistoryIds(target.provider_tag, body.get("tools"))
    if target.leading_system:
        body = _lead(body)
    turns: list[Json] = []
    edited = body
    for message in body["messages"]:
        turn = _write(message, ids)
        if turn is not message:
            edited = {**body, "messages": turns}
        if turn["role"] == "system" or turn.get("content") != []:
            turns.append(turn)
    if get_object(body, "thinking").get("type") == "enabled" and not may_think(turns):
        return _forbid_thinking(edited)
    return edited


def _lead(body: Json) -> Json:
    """Move the texts of later instructions into `system`: many imitations of Anthropic take them only there.

    An instruction that declares a tool stays: moved as text, it would silently lose the tool.
    """
    moved = [one for one in body["messages"] if one["role"] == "system" and not _declares(one)]
    if not moved:
        return body
    held = (
        one if isinstance(one, list) else [{"type": "text", "text": one}]
        for one in (body.get("system"), *(one.get("content") for one in moved))
        if one
    )
    texts = [one for blocks in held for one in blocks if get_text(one, "text")]
    turns = [one for one in body["messages"] if one not in moved]
    return {**body, **({"system": texts} if texts else {}), "messages": turns}


INLINE_TOOL: Final = "tool_definition"
"""The type of a tool that an instruction within a conversation declares."""


def _declares(message: Json) -> bool:
    blocks = (one for one in get_list(message, "content") if isinstance(one, dict))
    return any(get_object(one, "tool").get("type") == INLINE_TOOL for one in blocks)


def _forbid_thinking(body: Json) -> Json:
    """Leave out thinking, and context edits that are refused without it."""
    edited = {name: body[name] for name in body if name != "thinking"}
    context = get_object(body, "context_management")
    kept = [one for one in get_list(context, "edits") if "clear_thinking" not in str(one)]
    if len(kept) < len(get_list(context, "edits")):
        edited["context_management"] = {**context, "edits": kept}
        if not kept:
            del edited["context_management"]
    return edited


def _write(message: Json, ids: HistoryIds) -> Json:
    content = message.get("content")
    if message["role"] != "assistant":
        ids.answered = True
    if type(content) is not list:
        return message
    kept = []
    for block in content:
        if isinstance(block, dict):
            signed = block.get("signature") or block.get("data")
            if get_text(block, "type") in THINKING and (
                not signed or str(signed).startswith(ANY_TAG)
            ):
                continue  # another provider's
        kept.append(_shape(block, ids))
    is_same = len(kept) == len(content) and not any(map(is_not, kept, content))
    return message if is_same else {**message, "content": kept}


def _shape(block: object, ids: HistoryIds) -> object:
    if not isinstance(block, dict):
        return block
    if citations := get_list(block, "citations"):
        # A citation of a page that another provider found has an empty index.
        kept = [
            one
            for one in citations
            if not (isinstance(one, dict) and one.get("encrypted_index") == "")
        ]
        return block if len(kept) == len(citations) else {**block, "citations": kept or None}
    edits: Json
    match block:
        case {"type": "tool_use", "id": str(identity)}:
            edits = {
                "id": ids.write_call(identity),
                "name": ids.write_name(get_text(block, "name")),
                "input": shape_input(block.get("input")),
            }
        case {"type": "tool_result", "tool_use_id": str(identity)}:
            edits = {"tool_use_id": ids.write_result(identity)}
        case _:
            return block
    return block if edits.items() <= block.items() else {**block, **edits}
