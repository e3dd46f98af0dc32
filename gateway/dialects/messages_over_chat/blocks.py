"""Deltas of a chat stream as the content blocks of a messages stream.

Blocks have contiguous indexes and never overlap, while a chat upstream may mix the fragments of
several tool calls. So blocks wait in a queue in the order of their first fragment; only the head
of it is open, and its fragments go out as they come. Text and reasoning end when something else
begins. A tool call ends when something else begins and its arguments are a whole JSON object, or
when the message ends; until then what comes behind it waits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gateway.dialects.chat.state import StateCollector
from gateway.dialects.messages.history import read_input
from gateway.dialects.messages_over_chat.reply import (
    make_citations,
    make_text,
    make_thinking,
    make_tool_use,
    make_tool_use_id,
)
from gateway.dialects.records import Json, ReplyContext
from gateway.dialects.wire.jsonbytes import dumps_lenient, maybe_loads
from gateway.dialects.wire.sse import render_event
from gateway.errors import UndeliverableReply
from gateway.usage import count_text

MAX_HELD_CHARS: Final = 8 << 20
"""Characters held in one stream: text and arguments, and reasoning that waits behind them. It is the
length of the largest event."""

Kind = Literal["text", "thinking", "tool_use"]


@dataclass(slots=True)
class _Block:
    kind: Kind
    pending: list[str] = field(default_factory=list)
    """Fragments that have come and were not sent."""
    sent: list[str] = field(default_factory=list)
    """Fragments of text or arguments that were sent."""
    identity: str = ""
    name: str = ""
    index: int = -1
    """The block's place in the message, once it is open."""
    closed: bool = False
    signature: str = ""
    """The seals of thinking, if they are known before its end."""


class BlockWriter:
    """Takes fragments, writes events. Raises UndeliverableReply for calls that cannot be told apart."""

    __slots__ = (
        "_content_chars", "_context", "_held_chars", "_next_index", "_out", "_queue", "_sources",
        "_tools", "state", "text_bytes",
    )  # fmt: skip

    def __init__(self, context: ReplyContext) -> None:
        self.text_bytes = 0
        """See `Writer`."""
        self.state = StateCollector(context.provider_tag)
        self._content_chars = 0
        """Characters of the blocks of text that are over."""
        self._context = context
        self._held_chars = 0
        self._next_index = 0
        self._out: list[bytes] = []
        self._queue: deque[_Block] = deque()
        self._sources: list[Json] = []
        self._tools: dict[int, _Block] = {}

    @property
    def delivered(self) -> bool:
        """See `Writer`: a block is opened for text, or for a tool that has a name."""
        return self._next_index > 0

    @property
    def called_tools(self) -> bool:
        return bool(self._tools)

    def take(self) -> bytes:
        """Return the events since the last call."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def add_text(self, kind: Literal["text", "thinking"], text: str) -> None:
        if not text:
            return
        self.text_bytes += count_text(text)
        begins = not self._queue or self._queue[-1].kind != kind
        if begins:
            if kind == "text":
                self._add_state()
            self._queue.append(_Block(kind))
        block = self._queue[-1]
        block.pending.append(text)
        self._advance(begins=begins)
        if kind == "text" or block.pending:
            self._hold(text)

    def add_sources(self, sources: list[Json]) -> None:
        """Add sources of the text. They wait for the end of a block, as they quote from it."""
        self._sources += sources

    def add_call(self, position: int, identity: str, name: str, arguments: str) -> None:
        """Add a fragment of the call at `position`; identity, name and arguments may each be empty."""
        self.text_bytes += count_text(arguments)  # what waits was made, too
        block = self._tools.get(position)
        begins = block is None
        if block is None:
            self._add_state()
            block = self._tools[position] = _Block("tool_use")
            self._queue.append(block)
        block.identity = block.identity or identity
        block.name = block.name or name
        if block.closed:
            if arguments.strip():
                raise UndeliverableReply("The upstream added to a tool call that was complete.")
            return
        if arguments:
            block.pending.append(arguments)
            self._hold(arguments)
        self._advance(begins=begins)

    def flush(self) -> None:
        """Write everything that waits, and close the last block: no fragment is missing."""
        if self._tools:  # coding agents take a last block of thinking for the whole answer
            self._add_state()
        while self._queue:
            block = self._queue[0]
            if block.kind == "tool_use":
                if not block.name:
                    raise UndeliverableReply("The upstream called a tool without naming it.")
                block.identity = block.identity or make_tool_use_id(self._context, self._next_index)
            self._write(block, closing=True)
            self._close_head()

    def _add_state(self) -> None:
        """Let what the upstream wants back go out with the thinking that is open, else by itself."""
        last = self._queue[-1] if self._queue else None
        if (last is None or last.kind != "thinking") and (signature := self.state.take()):
            self._queue.append(_Block("thinking", signature=signature))

    def _advance(self, *, begins: bool) -> None:
        """Write what can be written. Only when a block `begins` is the head checked for its end.

        The check parses its arguments; at each fragment that would take quadratic time.
        """
        while self._queue:
            self._write(self._queue[0])
            if not begins or len(self._queue) == 1 or not _is_over(self._queue[0]):
                return
            self._close_head()

    def _write(self, block: _Block, *, closing: bool = False) -> None:
        """Open the block if enough is known of it, and write what is pending.

        Arguments that begin no object wait until they are whole: then they are put into one.
        """
        if block.index < 0:
            if block.kind == "tool_use" and not (block.identity and block.name):
                return
            self._open(block)
        if not block.pending:
            return
        text = "".join(block.pending)
        block.pending.clear()
        if block.kind == "tool_use":
            # A call without arguments may bring spaces: no SDK reads those as JSON.
            text = text if block.sent else text.lstrip()
            if not text:
                return
            if not block.sent and not text.startswith("{"):
                if not closing:
                    block.pending.append(text)
                    return
                text = dumps_lenient(read_input(text)).decode("utf-8", "replace")
        if block.kind != "thinking":
            block.sent.append(text)
        kind, key = _DELTAS[block.kind]
        self._emit("content_block_delta", block, delta={"type": kind, key: text})

    def _open(self, block: _Block) -> None:
        block.index = self._next_index
        self._next_index += 1
        self._emit("content_block_start", block, content_block=_make_start(block))

    def _close_head(self) -> None:
        block = self._queue.popleft()
        block.closed = True
        if block.kind == "text":
            self._cite(block)
        if block.kind == "thinking":
            if block.index < 0:
                self._open(block)
            if signature := block.signature or self.state.take_any():
                delta = {"type": "signature_delta", "signature": signature}
                self._emit("content_block_delta", block, delta=delta)
        self._emit("content_block_stop", block)

    def _cite(self, block: _Block) -> None:
        text = "".join(block.sent)
        for citation in make_citations(self._sources, text, self._content_chars):
            delta = {"type": "citations_delta", "citation": citation}
            self._emit("content_block_delta", block, delta=delta)
        self._sources.clear()
        self._content_chars += len(text)

    def emit(self, event: Json) -> None:
        self._out.append(render_event(event))

    def _emit(self, kind: str, block: _Block, **fields: Any) -> None:
        self.emit({"type": kind, "index": block.index, **fields})

    def _hold(self, text: str) -> None:
        self._held_chars += len(text)
        if self._held_chars > MAX_HELD_CHARS:
            raise UndeliverableReply("The upstream's reply is too large.")


_DELTAS: Final[dict[Kind, tuple[str, str]]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
"""The type of a delta, and the key of its text."""


def _make_start(block: _Block) -> Json:
    if block.kind == "tool_use":
        return make_tool_use(block.identity, block.name, {})
    return make_text("") if block.kind == "text" else make_thinking("")


def _is_over(block: _Block) -> bool:
    """Return whether nothing more can come for a block that something else follows."""
    if block.kind != "tool_use":
        return True
    if block.index < 0:
        return False
    arguments = "".join(block.sent).rstrip()
    if not arguments.endswith("}"):
        return False
    return maybe_loads(arguments.encode("utf-8", "surrogatepass")) is not None
