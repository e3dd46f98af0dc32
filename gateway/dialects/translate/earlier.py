"""Repairs of earlier turns that another vendor would always refuse, so that the conversation can go on.

The work of a vendor's own servers (searches, code, summaries) becomes text, if it has any. Results move
right behind their calls. An interrupted call gets a result that says so, and a result whose call is gone
becomes a message of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from gateway.dialects.wire.call_ids import maybe_id
from gateway.dialects.wire.records import Json

NO_RESULT: Final = "[There is no result: the call was interrupted.]"
"""The result given to a call that has none in the conversation."""
NO_CALL: Final = "[The result of an earlier call:]"
"""The text before a result whose call is no longer in the conversation."""
_SUMMARIES: Final = frozenset({"compaction"})
"""Types of blocks that summarise everything before them: the text gets no heading of a tool."""
_SAID: Final = (
    *("title", "filename", "url", "source", "text", "content", "stdout", "stderr", "logs"),
    *("output", "outputs", "results", "error"),
)
"""Members that may have a tool's findings, in the order in which the text has them."""
_MAX_LEVELS: Final = 8
"""Levels of a tool's result: a page that was fetched has six, arrays included."""


def tell(kind: str, held: Json) -> str:
    """Return the text of a block, a part or an item of an unknown kind; "" if it has none."""
    if isinstance(held.get("text"), str):
        return str(held["text"])
    text = "\n".join(filter(None, map(str.strip, _find_texts(held, 0))))
    if not text or kind in _SUMMARIES:
        return text
    return f"[{kind}:]\n{text}"


def _find_texts(held: object, level: int) -> Iterator[str]:
    match held:
        case str():
            yield held
        case {"type": "text", "data": str(data)}:  # a document's source
            yield data
        case dict() if level < _MAX_LEVELS:
            for name in _SAID:
                if name in held:
                    yield from _find_texts(held[name], level + 1)
        case list() if level < _MAX_LEVELS:
            for one in held:
                yield from _find_texts(one, level + 1)
        case _:
            pass


def pair_calls(messages: list[Json]) -> list[tuple[int, Json]]:
    """Return chat messages with results right behind their calls, each with its place in `messages`.

    Calls at the very end may lack results: the conversation has not gone on without them.
    """
    groups: list[list[tuple[int, Json]]] = []
    waiting: dict[str, list[tuple[int, Json]]] = {}
    """Calls without a result yet, by id: the group of each, and the result to add if none comes."""
    for place, message in enumerate(messages):
        key = _find_answered(message)
        if key is None:
            groups.append([(place, message)])
            here = len(groups) - 1
            for called, absent in _list_absent(message):
                # Calls of one message may share an id. Then each gets its own result, in order.
                if waiting.get(called) and waiting[called][0][0] != here:
                    _answer(groups, waiting.pop(called))
                waiting.setdefault(called, []).append((here, absent))
        elif waiting.get(key):
            groups[waiting[key].pop(0)[0]].append((place, message))
        else:
            groups.append([(place, _write_orphan(message))])
    for calls in waiting.values():
        if calls and (calls[0][0] < len(groups) - 1 or len(groups[-1]) > 1):
            _answer(groups, calls)
    return [*chain.from_iterable(groups)]


def _answer(groups: list[list[tuple[int, Json]]], calls: list[tuple[int, Json]]) -> None:
    for here, absent in calls:
        group = groups[here]
        group.append((group[0][0], absent))


def _find_answered(message: Json) -> str | None:
    """Return the call that a message answers: its id, or the name of an old-style function."""
    match message:
        case {"role": "tool"}:
            return maybe_id(message, "tool_call_id")
        case {"role": "function", "name": str(name)}:
            return f"function {name}"
        case _:
            return None


def _list_absent(message: Json) -> Iterator[tuple[str, Json]]:
    """Yield the calls of a message, each with the message that replaces a missing result."""
    if message.get("role") != "assistant":
        return
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        identity = maybe_id(call, "id") if isinstance(call, dict) else None
        if identity is not None:
            yield identity, {"role": "tool", "tool_call_id": identity, "content": NO_RESULT}
    match message.get("function_call"):
        case {"name": str(name)}:
            absent = {"role": "function", "name": name, "content": NO_RESULT}
            yield f"function {name}", absent
        case _:
            pass


def _write_orphan(message: Json) -> Json:
    content = message.get("content")
    if isinstance(content, list):
        return {"role": "user", "content": [{"type": "text", "text": NO_CALL}, *content]}
    return {"role": "user", "content": f"{NO_CALL}\n{content}" if content else NO_CALL}
