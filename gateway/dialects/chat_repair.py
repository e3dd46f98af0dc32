"""Chat chunks that break the spec's parts 2.4-2.6 and 6, made right (design.md §4). No I/O.

`ChunkRepair` sees every parsed chunk of a stream once, in order, and answers None for one that
conforms (its bytes pass untouched) or the chunks that should stand in its place. A choice goes
through three stations: its first chunk (role and empty content), its content, its last chunk
(empty delta and finish_reason). What an upstream merges is split along them.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.usage import maybe_repair_chat_usage

CHUNK_OBJECT: Final = "chat.completion.chunk"

_EMPTY: Final[tuple[object, ...]] = (None, "", [])
"""Values of a delta that carry nothing."""

_ROLE, _BODY, _LAST = range(3)
"""The stations, as indexes of the chunks one chunk is split into."""

Json = dict[str, Any]


@dataclass(slots=True)
class _Tools:
    """The tool calls of one choice so far."""

    started: set[int] = field(default_factory=set)
    latest: int = -1


class ChunkRepair:
    """The state of one stream's choices."""

    __slots__ = ("_tools", "finished", "started")

    def __init__(self) -> None:
        self.started: set[int] = set()
        self.finished: set[int] = set()
        self._tools: dict[int, _Tools] = {}

    def repair(self, chunk: Json) -> list[Json] | None:
        """None when `chunk` conforms, else what to send instead (with usage on the last)."""
        fixed, changed = _repair_envelope(chunk)
        stations: tuple[list[Json], list[Json], list[Json]] = ([], [], [])
        for position, choice in enumerate(chunk.get("choices") or []):
            if not isinstance(choice, dict):
                changed = True
                continue
            parts, altered = self._split(choice, position)
            changed |= altered
            for station, part in parts:
                stations[station].append(part)
        used = [station for station in stations if station]
        if len(used) > 1:
            changed = True
        if not changed:
            return None
        if not used:
            return [fixed]
        early = {**fixed, "usage": None} if "usage" in fixed else fixed
        chunks = [{**early, "choices": choices} for choices in used]
        chunks[-1] = {**fixed, "choices": used[-1]}
        return chunks

    def continue_tool(self, choice: int, tool: int) -> None:
        """More arguments of a call passed by without a look at them."""
        self._tools[choice].latest = tool

    def _split(self, choice: Json, position: int) -> tuple[list[tuple[int, Json]], bool]:
        """The stations that one choice of a chunk passes, and whether anything was altered."""
        index = choice.get("index")
        changed = False
        if not isinstance(index, int) or isinstance(index, bool):
            index, changed = position, True
            choice = {**choice, "index": index}
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta, changed = {}, True
            choice = {**choice, "delta": delta}
        finish = choice.get("finish_reason") or None
        first = index not in self.started
        self.started.add(index)

        body, tools_changed = self._repair_tools(index, delta)
        changed |= tools_changed
        parts: list[tuple[int, Json]] = []
        if first:
            body, altered = _split_role(choice, body, parts, may_merge=finish is None)
            changed |= altered
        elif "role" in body:
            body = {key: value for key, value in body.items() if key != "role"}
            changed = True
        if finish is not None:
            self.finished.add(index)
            changed |= _split_last(choice, body, parts)
        elif body or not parts:
            parts.append((_BODY, choice if body is delta else {**choice, "delta": body}))
        return parts, changed

    def _repair_tools(self, index: int, delta: Json) -> tuple[Json, bool]:
        """Give tool call fragments their `index`, and the first of each call its `type`."""
        calls = delta.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            return delta, False
        state = self._tools.setdefault(index, _Tools())
        changed = False
        fixed: list[Any] = []
        for call in calls:
            repaired = _repair_tool_call(call, state) if isinstance(call, dict) else call
            changed |= repaired is not call
            fixed.append(repaired)
        return ({**delta, "tool_calls": fixed}, True) if changed else (delta, False)


def _repair_envelope(chunk: Json) -> tuple[Json, bool]:
    changed = False
    if chunk.get("object") != CHUNK_OBJECT:
        chunk, changed = {**chunk, "object": CHUNK_OBJECT}, True
    usage = chunk.get("usage")
    if isinstance(usage, dict) and (repaired := maybe_repair_chat_usage(usage)) is not None:
        chunk, changed = {**chunk, "usage": repaired}, True
    return chunk, changed


def _repair_tool_call(call: Json, state: _Tools) -> Json:
    """A call without an index continues the latest one, or begins the next when it names itself."""
    index = call.get("index")
    function = call.get("function")
    names_itself = bool(call.get("id")) or bool(isinstance(function, dict) and function.get("name"))
    if not isinstance(index, int) or isinstance(index, bool):
        index = state.latest + 1 if names_itself or state.latest < 0 else state.latest
        call = {"index": index, **{key: value for key, value in call.items() if key != "index"}}
    if index not in state.started and not call.get("type"):
        call = {**call, "type": "function"}
    state.started.add(index)
    state.latest = index
    return call


def _split_role(
    choice: Json, delta: Json, parts: list[tuple[int, Json]], *, may_merge: bool
) -> tuple[Json, bool]:
    """Append the first chunk of a choice; what is left of its delta, and whether it was altered.

    A delta that holds only role, content and empty values is the first chunk itself.
    """
    payload = {key: value for key, value in delta.items() if key != "role" and value not in _EMPTY}
    if not payload and may_merge:
        conforms = delta.get("role") == "assistant" and delta.get("content") == ""
        whole = {**_ROLE_DELTA, **_without(delta, _ROLE_DELTA)}
        parts.append((_ROLE, choice if conforms else {**choice, "delta": whole}))
        return {}, not conforms
    parts.append((_ROLE, _bare(choice, dict(_ROLE_DELTA))))
    rest = _without(delta, {"role"})
    if rest.get("content") in _EMPTY:
        rest = _without(rest, {"content"})
    return rest, True


def _split_last(choice: Json, delta: Json, parts: list[tuple[int, Json]]) -> bool:
    """Append the last chunk of a choice, what it carried split off; whether it was altered."""
    payload = {key: value for key, value in delta.items() if value not in _EMPTY}
    if payload:
        parts.append((_BODY, {**choice, "delta": payload, "finish_reason": None}))
    if not delta and isinstance(choice.get("delta"), dict) and not choice["delta"]:
        parts.append((_LAST, choice))
        return False
    last = {**choice, "delta": {}}
    if payload and last.get("logprobs") is not None:
        last["logprobs"] = None
    parts.append((_LAST, last))
    return True


_ROLE_DELTA: Final[Json] = {"role": "assistant", "content": ""}


def _bare(choice: Json, delta: Json) -> Json:
    """A choice of this index with nothing else in it."""
    return {"index": choice["index"], "delta": delta, "logprobs": None, "finish_reason": None}


def _without(delta: Json, keys: Container[str]) -> Json:
    return {key: value for key, value in delta.items() if key not in keys}
