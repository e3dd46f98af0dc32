"""Chat streams: reading a chat upstream's chunks (and JSON replies), and the stream that passes.

For a chat caller the bytes of a chat upstream pass, except for edits and repairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway.base.errors import UpstreamError
from gateway.base.prices import name_tier
from gateway.base.usage import Expected, Reported, merge_reports
from gateway.dialects.chat.chunks import CHUNK_OBJECT, EMPTY, ChunkRepair
from gateway.dialects.chat.content import carries, count_choices_text, fill_calls
from gateway.dialects.chat.repair import (
    ID_PREFIX,
    NO_MESSAGE,
    REPLY_OBJECT,
    find_message,
    repair_finish,
    repair_message,
)
from gateway.dialects.wire.failures import check_error
from gateway.dialects.wire.jsonbytes import (
    dumps_lenient,
    get_list,
    get_object,
    get_text,
    hide_bill,
    maybe_splice,
)
from gateway.dialects.wire.passing import PassingStream
from gateway.dialects.wire.pipelines import EventReader, Probed
from gateway.dialects.wire.records import Event, Json, ReplyContext
from gateway.dialects.wire.sse import render_data
from gateway.dialects.wire.templates import PROBE
from gateway.dialects.wire.usage import find_chunk_usage, maybe_repair_chat_usage, read_openai_usage

_HEAD: Final = ("id", "object", "created", "model")
_DONE_LINE: Final = b"data: [DONE]"
_FINISH: Final = re.compile(rb'"finish_reason"\s*:\s*"')
"""Matches a finish reason only: inside a text its quotes would be escaped."""


def check_finish(finish: object) -> None:
    """Raise UpstreamError for a finish reason that tells an error (OpenRouter, Mistral, Zhipu)."""
    if finish in ("error", "network_error"):
        raise UpstreamError("The upstream ended its reply with an error.")


def read_choice(reply: Json, context: ReplyContext) -> tuple[Json, Json]:
    """Return the first choice of a reply, and its message, repaired.

    Raises UpstreamError if it has none.
    """
    choice = next((one for one in reply["choices"] if isinstance(one, dict)), None)
    message = find_message(choice) if choice else None
    if choice is None or message is None:
        raise UpstreamError(NO_MESSAGE)
    message = repair_message(message, context)
    return repair_finish(choice, context, called=bool(message.get("tool_calls"))), message


class ChatReader(EventReader):
    """An `EventReader` of chunks. It ends with `[DONE]`."""

    __slots__ = ("_first", "_n", "_taken", "_tier", "repair")

    kind = CHUNK_OBJECT
    """The `object` of its chunks."""

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self.repair = ChunkRepair(context)
        self._n = context.request.n
        self._first: Json | None = None
        self._taken: set[int] = set()
        """The choices with messages that were read as deltas."""
        self._tier = ""

    @property
    def finished(self) -> bool:
        return len(self.repair.finished) >= max(self._n, len(self.repair.started))

    def read(self, event: Event) -> list[Json]:
        """Read the chunks that replace an event; an event without choices has none."""
        chunk = self.read_event(event)
        if chunk is None or not get_list(chunk, "choices"):
            return []
        return self.repair.repair(chunk) or [chunk]

    def _note_done(self) -> None:
        self.ended = True

    def _read_object(self, chunk: Json, name: str) -> Json:
        check_error(chunk, name)
        if chunk.get("object") == REPLY_OBJECT or self._taken:
            chunk = self._take_messages(chunk)
        self.begun = self.begun or dict in map(type, get_list(chunk, "choices"))
        if self._first is None and self.begun:
            self._first = chunk
        if told := find_chunk_usage(chunk):
            self.usage = merge_reports(self.usage, told)
        self._tier = name_tier(chunk.get("service_tier")) or self._tier
        return chunk

    def _take_messages(self, chunk: Json) -> Json:
        """Read messages as deltas: some servers send a whole reply as one event, others as several events."""
        choices: list[object] = []
        for position, one in enumerate(get_list(chunk, "choices")):
            choice = one
            if type(one) is dict:
                index = one.get("index")
                index = index if type(index) is int else position
                is_new = index in self._taken or index not in self.repair.started
                if type(one.get("delta")) is dict:
                    self._taken.discard(index)
                elif type(one.get("message")) is dict and is_new:  # after deltas it repeats them
                    self._taken.add(index)
                    choice = {**one, "delta": fill_calls(one["message"])}
                    del choice["message"]
            choices.append(choice)
        return {**chunk, "choices": choices} if choices else chunk

    def maybe_probe(self, event: Json) -> Probed | None:
        """See `EventReader`. Calls, whose index may change, are not probed, nor chunks after a finish."""
        probe = maybe_probe(event)
        if probe is None or self.repair.finished:
            return None
        probed, key, _ = probe
        delta = probed["choices"][0]["delta"]
        others = {name for name, value in delta.items() if value not in EMPTY}
        return probe if others <= {"role", key} else None

    def read_end(self, end: bytes, usage: Json | None) -> None:
        """Read the end of a chunk too large to keep: the finish reason and the usage."""
        if usage is not None:
            self.usage = merge_reports(self.usage, usage)
        # With several choices the bytes do not tell which one finished.
        if self._n == 1 and _FINISH.search(end):
            self.begun = True
            self.repair.started.add(0)
            self.repair.finished.add(0)

    def close(self) -> list[Json]:
        """Return a last chunk with the missing finish reasons: after `[DONE]` none will come."""
        choices: list[Json] = [
            {"index": index, "delta": {}, "logprobs": None, "finish_reason": reason}
            for index, reason in self.repair.finish()
        ]
        return [{**self.make_head(), "choices": choices}] if choices else []

    def make_head(self) -> Json:
        """Return the members that all chunks share, from the first chunk with choices."""
        first = self._first or {}
        head: Json = {key: first[key] for key in _HEAD if key in first}
        return head | {"object": self.kind}

    def is_end(self, rest: bytes) -> bool:
        """`[DONE]` counts once its line is whole: some upstreams keep the connection open after it."""
        if not rest.startswith(_DONE_LINE):
            return False
        line, end, _ = rest.partition(b"\n")
        return bool(end) and line.strip() == _DONE_LINE

    def read_report(self, expected: Expected) -> Reported:
        return read_openai_usage(self.usage, self._tier, expected)


DONE: Final = b"data: [DONE]\n\n"

TEXT_KEYS: Final = ("content", "reasoning_content", "reasoning", "refusal")
"""Keys of a delta that hold text; the arguments of a tool call are text, too."""


class ChatStream(PassingStream):
    """A `Pipeline`: the upstream's bytes in, conforming events out."""

    _open_reader = ChatReader
    _write_event = staticmethod(render_data)

    __slots__ = ("_held_usage", "_id")

    _reader: ChatReader

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, self._open_reader(context), DONE)
        self._moves_usage = context.request.wants_usage
        self._id = ""
        self._held_usage = b""
        """The usage chunk, if the caller asked for it. It is sent last, as clients expect."""

    def _close(self, missing: Sequence[Json]) -> None:
        self._out += (render_data(self._edit(one)) for one in missing)
        if self._moves_usage and self._reader.usage is not None:
            self._out.append(self._held_usage or self._make_usage_chunk())

    def _make_usage_chunk(self) -> bytes:
        """Write the usage that came in chunks with choices."""
        usage = self._reader.usage or {}
        self._id = self._id or self._make_id(None)
        head = {"created": self._context.created, "model": "", **self._reader.make_head()}
        chunk = {**head, "choices": [], "usage": maybe_repair_chat_usage(usage) or usage}
        return render_data(self._edit(hide_bill(chunk, dumps_lenient(chunk))))

    def _is_canonical(self, event: Event, block: bytes, body: Json) -> bool:  # noqa: ARG002 - chunks have no names
        return event.canonical

    def _edit_event(self, block: bytes, chunk: Json) -> bytes:
        choices = get_list(chunk, "choices")
        if not choices:
            # OpenAI sends a chunk without choices only to callers that ask for the usage.
            if not isinstance(chunk.get("usage"), dict) or not self._moves_usage:
                return b""
            if chunk.get("choices") != []:
                chunk = {**chunk, "choices": []}
                block = render_data(chunk)
        if not self._id:
            self._id = self._make_id(chunk.get("id"))
        self._begun = True
        text_bytes = self._count_text(choices)
        self._passed_bytes += text_bytes
        if text_bytes == 0 and not self._carried:
            self._carried = any(carries(choice, "delta") for choice in choices)
        converted = self._convert(block, chunk)
        if not choices:
            self._held_usage, converted = converted, b""
        elif chunk.get("usage") is not None:
            self._held_usage = b""  # the later usage replaces it
        return converted

    def _count_text(self, choices: list[object]) -> int:
        return count_choices_text(choices, "delta")

    def _convert(self, block: bytes, chunk: Json) -> bytes:
        repair = self._reader.repair
        before, moves = repair.progress, repair.moves
        chunks = repair.repair(chunk)
        if repair.moves != moves:
            self._templates.clear()  # they write arguments to the call that had the index before
        if repair.finished:
            # After its finish a choice may be repeated, empty. To drop repeats, each chunk is read.
            self._templates.clear()
            self._may_learn = 0
        # A template stands for events that change nothing but the text: a chunk that moved a
        # choice on, or that had to be split, is none.
        if self._may_learn and repair.progress == before and (not chunks or len(chunks) == 1):
            self._learn_from(block, chunk)
        return self._render(block, chunk, chunks)

    def _render(self, block: bytes, chunk: Json, chunks: list[Json] | None) -> bytes:
        """Write the caller's bytes: `block` with edits, or the repaired chunks."""
        is_same = chunks is None and not self._has_misplaced_usage(chunk)
        if is_same and isinstance(identity := chunk.get("id"), str) and identity:
            ours = self._context.request.model
            model = chunk.get("model", ours)
            out = maybe_splice(block, "model", model, ours) if isinstance(model, str) else None
            out = out and maybe_splice(out, "id", identity, self._id)
            if out:
                return out
        return b"".join(
            render_data(self._edit(one))
            for one in chunks or [chunk]
            if one["choices"] or not chunk["choices"]
        )

    def _has_misplaced_usage(self, chunk: Json) -> bool:
        """Return whether a chunk has a usage beside choices, which the caller wants in a separate chunk."""
        if chunk.get("usage") is None:
            return False
        return self._moves_usage and bool(chunk["choices"])

    def _edit(self, chunk: Json) -> Json:
        if self._has_misplaced_usage(chunk):
            chunk = {**chunk, "usage": None}
        edited = {"id": self._id, **chunk} if "id" not in chunk else {**chunk, "id": self._id}
        if "model" in edited:
            edited["model"] = self._context.request.model
        return edited

    def _learn_from(self, block: bytes, chunk: Json) -> None:
        """Learn the template of a chunk, if it has one: the chunk converted with the probe in it."""
        probe = maybe_probe(chunk)
        if probe is None or chunk.get("usage") is not None:
            return  # every usage has to be read
        probed, key, _ = probe
        if count_choices_text(probed["choices"], "delta") != len(PROBE):
            return  # more than the text in the hole has to be counted
        if key == "arguments" and not says_its_call(chunk):
            return
        repair = self._reader.repair
        repaired = repair.repair(probed)
        # The indexes are those that the repair gave the calls, not the upstream's.
        tool = read_tool(repaired[0] if repaired else chunk)
        note = partial(repair.continue_tool, *tool) if tool else None
        self._learn_text(block, probe, partial(self._render, chunks=repaired), note)

    def _make_id(self, upstream_id: object) -> str:
        """Make the id of all chunks: the upstream's with OpenAI's prefix, else the request's."""
        if not isinstance(upstream_id, str) or not upstream_id:
            return ID_PREFIX + self._context.request_id
        return upstream_id if upstream_id.startswith(ID_PREFIX) else ID_PREFIX + upstream_id


def maybe_probe(chunk: Json) -> Probed | None:
    """Put the probe in place of a chunk's only text; return the chunk, the text's key and the text.

    None unless the chunk has exactly one choice and exactly one non-empty text in it.
    """
    match chunk.get("choices"):
        case [{"delta": dict(delta)} as choice]:
            pass
        case _:
            return None
    texts = [key for key in TEXT_KEYS if isinstance(delta.get(key), str) and delta[key]]
    match delta.get("tool_calls"):
        case None | [] if len(texts) == 1:
            key = texts[0]
            text, probed = delta[key], {**delta, key: PROBE}
        case [{"function": {"arguments": str(text)} as function} as call] if text and not texts:
            key = "arguments"
            probed = {**delta, "tool_calls": [{**call, "function": {**function, key: PROBE}}]}
        case _:
            return None
    return {**chunk, "choices": [{**choice, "delta": probed}]}, key, text


def says_its_call(chunk: Json) -> bool:
    """Return whether the fragment of a probed chunk tells its call by itself, whatever its arguments are."""
    (call,) = chunk["choices"][0]["delta"]["tool_calls"]
    named = get_text(get_object(call, "function"), "name") and not get_text(call, "id")
    return read_tool(chunk) is not None and not named


def read_tool(chunk: Json) -> tuple[int, int] | None:
    """Read the choice and the tool call that the arguments in a probed chunk belong to."""
    match chunk["choices"][0]:
        case {"index": int(choice), "delta": {"tool_calls": [{"index": int(tool)}]}}:
            return choice, tool
        case _:
            return None
