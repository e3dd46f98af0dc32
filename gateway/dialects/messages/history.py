"""Earlier turns as Anthropic takes them.

Thinking goes back to its provider as it signed it; ids have characters that Anthropic takes; the
arguments of a call, from other dialects, become the input of a tool, which is an object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import is_not
from typing import Any, Final

import orjson

from gateway.dialects.records import Json
from gateway.dialects.wire.jsonbytes import get_list, get_object, maybe_loads
from gateway.dialects.wire.seals import ANY_TAG

WRAPPED_KEY: Final = "arguments"
"""The key of arguments that are no object, in the object that a tool's input has to be."""


def read_input(arguments: str) -> Json:
    """Read arguments as an object; none at all is an empty one."""
    if not arguments.strip():
        return {}
    read = read_arguments(arguments)
    try:  # half a character, or an integer beyond 64 bits, could not be written again
        orjson.dumps(read)
    except TypeError:
        read = None
    return wrap_arguments(arguments if read is None else read)


def read_arguments(text: str) -> object:
    """Read arguments as JSON; return None if the text is not JSON."""
    return maybe_loads(text.encode("utf-8", "surrogatepass"))


def wrap_arguments(given: object) -> Json:
    """Put arguments that are no object into one: a model wrote them, so nobody can mend them."""
    return given if isinstance(given, dict) else {WRAPPED_KEY: given}


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
    spoken = (one for one in reversed(turns) if one["role"] == "assistant")
    last: Json = next(spoken, {})
    kinds = [block.get("type") for block in get_list(last, "content") if isinstance(block, dict)]
    return "tool_use" not in kinds or kinds[0] in THINKING


def write_history(body: Json) -> Json:
    """Return a request whose earlier turns Anthropic takes, whoever made them.

    Thinking that other providers made or nobody signed is left out, as are pages that they found, and
    ids of calls have characters that it takes.
    """
    messages = body["messages"]
    written = [_write(message) for message in messages]
    turns = [message for message in written if message["content"] != []]
    edited = body
    if any(ours is not given for ours, given in zip(written, messages, strict=True)):
        edited = {**body, "messages": turns}
    if get_object(body, "thinking").get("type") == "enabled" and not may_think(turns):
        return _forbid_thinking(edited)
    return edited


def _forbid_thinking(body: Json) -> Json:
    """Leave thinking out, and the edits of the context that are refused without it."""
    edited = {name: body[name] for name in body if name != "thinking"}
    context = get_object(body, "context_management")
    kept = [one for one in get_list(context, "edits") if "clear_thinking" not in str(one)]
    if len(kept) < len(get_list(context, "edits")):
        edited["context_management"] = {**context, "edits": kept}
        if not kept:
            del edited["context_management"]
    return edited


def _write(message: Json) -> Json:
    content = message["content"]
    if type(content) is not list:
        return message
    kept = [_shape(block) for block in content if not _is_foreign(block)]
    is_same = len(kept) == len(content) and not any(map(is_not, kept, content))
    return message if is_same else {**message, "content": kept}


def _shape(block: Any) -> Any:
    if isinstance(block, dict) and (citations := get_list(block, "citations")):
        kept = [one for one in citations if not _is_foreign_citation(one)]
        return block if len(kept) == len(citations) else {**block, "citations": kept or None}
    key = _IDS.get(str(block.get("type"))) if isinstance(block, dict) else None
    identity = block.get(key) if key else None
    if key is None or not isinstance(identity, str) or (shaped := shape_id(identity)) == identity:
        return block
    return {**block, key: shaped}


_IDS: Final = {"tool_use": "id", "tool_result": "tool_use_id"}


def shape_id(identity: str) -> str:
    """Write an id from another provider (`functions.get:0`) in characters that Anthropic takes."""
    # Each character becomes its number, so that two ids stay two.
    return _FOREIGN_CHARS.sub(lambda char: f"_{ord(char[0]):x}", identity)


_FOREIGN_CHARS: Final = re.compile(r"[^a-zA-Z0-9_-]")


def _is_foreign_citation(citation: Any) -> bool:
    """Return whether a citation names a page that another provider found: its index is empty."""
    return isinstance(citation, dict) and citation.get("encrypted_index") == ""


def _is_foreign(block: Any) -> bool:
    if not isinstance(block, dict) or block.get("type") not in THINKING:
        return False
    signed = block.get("signature") or block.get("data")
    return not signed or str(signed).startswith(ANY_TAG)
