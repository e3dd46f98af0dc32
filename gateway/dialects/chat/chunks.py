"""Repairs of chat chunks that break OpenAI's schema; `repair` has those of whole replies, and shared parts.

`ChunkRepair` sees every parsed chunk of a stream once, in order. A choice has three parts there: its first
chunk (role and empty content), its content, and its last chunk (empty delta and finish_reason). Merged chunks
are split into these parts.
"""

from __future__ import annotations

from operator import is_
from typing import Final

from gateway.dialects.chat.content import CallRepair
from gateway.dialects.chat.repair import list_calls, repair_finish, without
from gateway.dialects.wire.jsonbytes import get_list
from gateway.dialects.wire.records import Json, ReplyContext
from gateway.dialects.wire.usage import drop_usage, maybe_repair_chat_usage

CHUNK_OBJECT: Final = "chat.completion.chunk"
EMPTY: Final[tuple[object, ...]] = (None, "", [])
"""Values of a delta that carry nothing."""

_ROLE, _BODY, _LAST = range(3)
"""The parts of a choice, as indexes of the chunks that one chunk is split into."""


class ChunkRepair:
    """Repairs one stream; knows which choices have begun and finished, and their tool calls."""

    __slots__ = ("_context", "_tools", "finished", "started")

    def __init__(self, context: ReplyContext) -> None:
        self.started: set[int] = set()
        self.finished: set[int] = set()
        self._context = context
        self._tools: dict[int, CallRepair] = {}

    @property
    def progress(self) -> tuple[int, int]:
        """The number of choices that have begun, and that have finished."""
        return len(self.started), len(self.finished)

    @property
    def moves(self) -> int:
        """Grows with each call that reuses another call's index."""
        if not self._tools:  # the usual case, tested first: each event comes here
            return 0
        return sum(tools.moves for tools in self._tools.values())

    def repair(self, chunk: Json) -> list[Json] | None:
        """Return the chunks to send instead of `chunk`, usage on the last; None when it conforms."""
        given, chunk = chunk, _repair_envelope(chunk)
        choices = chunk.get("choices") or []
        split: tuple[list[Json], list[Json], list[Json]] = ([], [], [])
        for position, choice in enumerate(choices):
            if isinstance(choice, dict):
                for number, part in self._split(choice, position):
                    split[number].append(part)
        used = [parts for parts in split if parts] or [[]]
        # A conforming chunk was split into just itself.
        is_whole = len(used) == 1 and len(used[0]) == len(choices)
        if chunk is given and is_whole and all(map(is_, used[0], choices)):
            return None
        # Only the last chunk keeps the usage, so that clients that add up usages count it once.
        early = drop_usage(chunk)
        chunks = [{**early, "choices": parts} for parts in used]
        chunks[-1] = {**chunk, "choices": used[-1]}
        return chunks

    def finish(self) -> list[tuple[int, str]]:
        """Return each choice that has begun and not finished, with a finish reason for it."""
        open_choices = sorted(self.started - self.finished)
        self.finished |= self.started
        # Clients run the calls of a reply only if it ended with this reason.
        return [
            (index, "tool_calls" if self._tools.get(index) else "stop") for index in open_choices
        ]

    def continue_tool(self, choice: int, tool: int) -> None:
        """Note that more arguments of a call passed unread."""
        self._tools[choice].continue_call(tool)

    def _split(self, choice: Json, position: int) -> list[tuple[int, Json]]:
        """Split one choice of a chunk into its parts; a conforming choice is its only part."""
        index, delta = choice.get("index"), choice.get("delta")
        if type(index) is not int:
            index = position
            choice = {**choice, "index": index}
        if not isinstance(delta, dict):
            delta = {}
            choice = {**choice, "delta": delta}
        finish = choice.get("finish_reason") or None
        # The part depends on what the choice had before, not on what this chunk claims.
        first = index not in self.started
        self.started.add(index)
        if index in self.finished and not _carries(delta):
            return []  # a finished choice may come again, empty, beside the usage

        body = self._repair_tools(index, delta)
        parts: list[tuple[int, Json]] = []
        if finish is not None:
            choice = repair_finish(choice, self._context, called=bool(self._tools.get(index)))
        if first:
            body = _split_role(choice, body, parts, may_merge=finish is None)
        elif "role" in body:
            body = without(body, {"role"})
        if finish is not None:
            self.finished.add(index)
            _split_last(choice, body, parts)
        elif body or not parts:
            parts.append((_BODY, choice if body is delta else {**choice, "delta": body}))
        return parts

    def _repair_tools(self, index: int, delta: Json) -> Json:
        calls, tools = get_list(delta, "tool_calls"), self._tools.get(index)
        is_old = not calls and "function_call" in delta
        if is_old:
            calls = list_calls(delta, self._context, index=0)
        if not calls:
            return delta
        if tools is None:
            tools = self._tools[index] = CallRepair(self._context)
        fixed = tools.repair_deltas(calls)
        if fixed is calls and not is_old:
            return delta
        return {**without(delta, {"function_call"}), "tool_calls": fixed}


def _carries(delta: Json) -> bool:
    """Return whether a delta has a member that is not empty, besides its role."""
    return any(value not in EMPTY for key, value in delta.items() if key != "role")


def _repair_envelope(chunk: Json) -> Json:
    if chunk.get("object") != CHUNK_OBJECT:
        chunk = {**chunk, "object": CHUNK_OBJECT}
    usage = chunk.get("usage")
    if type(usage) is dict and (repaired := maybe_repair_chat_usage(usage)) is not None:
        chunk = {**chunk, "usage": repaired}
    return chunk


def _split_role(
    choice: Json, delta: Json, parts: list[tuple[int, Json]], *, may_merge: bool
) -> Json:
    """Append a choice's first chunk; return the rest of its delta.

    A delta that holds only role, content and empty values is the first chunk itself.
    """
    payload = {key: value for key, value in delta.items() if key != "role" and value not in EMPTY}
    if not payload and may_merge:
        # OpenAI begins with the role and an empty content, and clients append to that.
        conforms = delta.get("role") == "assistant" and delta.get("content") == ""
        whole = {**_ROLE_DELTA, **without(delta, _ROLE_DELTA)}
        parts.append((_ROLE, choice if conforms else {**choice, "delta": whole}))
        return {}
    head = {"index": choice["index"], "delta": {**_ROLE_DELTA}}
    parts.append((_ROLE, {**head, "logprobs": None, "finish_reason": None}))
    rest = without(delta, {"role"})
    return without(rest, {"content"}) if rest.get("content") in EMPTY else rest


def _split_last(choice: Json, delta: Json, parts: list[tuple[int, Json]]) -> None:
    """Append a choice's last chunk, after splitting off its content."""
    payload = {key: value for key, value in delta.items() if value not in EMPTY}
    if payload:
        parts.append((_BODY, {**drop_usage(choice), "delta": payload, "finish_reason": None}))
    last = {**choice, "delta": {}} if choice["delta"] else choice
    if payload and last.get("logprobs") is not None:
        last["logprobs"] = None
    parts.append((_LAST, last))


_ROLE_DELTA: Final[Json] = {"role": "assistant", "content": ""}
