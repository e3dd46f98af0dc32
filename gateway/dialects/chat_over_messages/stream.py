"""A messages stream as a chat stream: its events as chunks.

The finish reason waits for the end, since a later `message_delta` may revise it, and the last
chunk of a choice must be its last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from gateway.dialects.chat.writer import NO_ARGUMENTS, ChoiceWriter
from gateway.dialects.chat_over_messages.reply import (
    cite,
    make_usage,
    read_citations,
    read_refusal,
    to_finish_reason,
)
from gateway.dialects.messages.history import THINKING, maybe_thinking
from gateway.dialects.messages.upstream import dump_arguments
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.wire.jsonbytes import get_text

_TEXT_KEYS: Final = {"text": "content", "thinking": "reasoning_content"}
"""The chat delta's key by the block's type, which is also the key of the block's text."""
_SIGNED: Final = ("thinking", "signature")
"""Texts of a block of thinking that come in fragments."""
_FRAGMENTS: Final = {"text_delta": "text", "thinking_delta": "thinking"}


@dataclass(slots=True)
class _Call:
    """A tool's block while it is open."""

    number: int
    """Its number among the tools' blocks alone, which are what chat counts."""
    input: object
    """The start's arguments: none, unless the upstream sends them in one piece."""
    said: bool = False
    """A fragment of arguments has come."""


class ChunkWriter(ChoiceWriter):
    """A `Writer` of chat chunks."""

    __slots__ = (
        "_block_start", "_calls", "_citations", "_stop_details", "_stop_reason", "_thinking",
    )  # fmt: skip

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._block_start = 0
        """Characters of content before the latest block of text."""
        self._citations: list[Json] = []
        """The citations of that block: they are about the whole of it, and may come first."""
        self._calls: dict[int, _Call] = {}
        self._thinking: dict[int, tuple[Json, dict[str, list[str]]]] = {}
        """The blocks of thinking that are open, and the fragments of their texts."""
        self._stop_reason: object = None
        self._stop_details: object = None

    def write(self, event: Json) -> None:
        write = self._WRITERS.get(event["type"])
        if write is not None:
            write(self, event)

    def flush(self) -> None:
        for index in list(self._calls):
            self._close_block({"index": index})
        self._cite()

    def close(self, usage: Usage) -> None:
        """Write the last chunk of the choice, the refusal before it, and the usage chunk."""
        refusal = read_refusal(self._stop_reason, self._stop_details)
        if refusal is not None:
            self._write({"refusal": refusal})
        called = self._count > 0
        finish = to_finish_reason(self._stop_reason, called=called, functions=self._functions)
        self._write_end(finish, make_usage(usage))

    def _open_block(self, event: Json) -> None:
        index, block = _read_index(event), event.get("content_block")
        self._close_block(event)
        if not isinstance(block, dict):
            return
        kind = block.get("type")
        if kind == "tool_use":
            number = self._begin_call(block.get("id"), block.get("name"))
            self._calls[index] = _Call(number, block.get("input"))
        elif isinstance(kind, str) and kind in _TEXT_KEYS:
            self._block_start = self._content_chars
            self._citations = read_citations(block)
            self._write_text(_TEXT_KEYS[kind], block.get(kind))
        if isinstance(kind, str) and kind in THINKING:
            self._thinking[index] = block, {key: [get_text(block, key)] for key in _SIGNED}

    def _add_delta(self, event: Json) -> None:
        """Write a fragment."""
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return
        kind = delta.get("type")
        call = self._calls.get(_read_index(event))
        if kind == "input_json_delta" and call is not None:
            self._add_arguments(call, delta.get("partial_json"))
        elif isinstance(kind, str) and kind in _FRAGMENTS:
            held = _FRAGMENTS[kind]
            self._write_text(_TEXT_KEYS[held], delta.get(held))
        elif kind == "citations_delta":
            self._citations += read_citations({"citations": [delta.get("citation")]})
        if (open_ := self._thinking.get(_read_index(event))) is not None:
            for key, fragments in open_[1].items():
                fragments.append(get_text(delta, key))

    def _close_block(self, event: Json) -> None:
        self._cite()
        block, said = self._thinking.pop(_read_index(event), (None, {}))
        texts = {key: "".join(fragments) for key, fragments in said.items()}
        if block and (thinking := maybe_thinking(block | texts)):
            self._note_state(thinking)
        call = self._calls.pop(_read_index(event), None)
        if call is None or call.said:
            return
        self._add_arguments(call, dump_arguments(call.input))
        if not call.said:
            self._write_call(call.number, {}, "function", {"arguments": NO_ARGUMENTS})

    def _cite(self) -> None:
        for citation in self._citations:
            annotation = cite(citation, self._block_start, self._content_chars)
            self._write_listed("annotations", annotation)
        self._citations = []

    def _note_stop(self, event: Json) -> None:
        delta = event.get("delta")
        if isinstance(delta, dict):
            self._stop_reason = delta.get("stop_reason") or self._stop_reason
            self._stop_details = delta.get("stop_details") or self._stop_details

    def _add_arguments(self, call: _Call, fragment: object) -> None:
        if isinstance(fragment, str) and fragment:
            call.said = True
            self._write_arguments(call.number, fragment)

    _WRITERS: ClassVar[dict[str, Callable[[ChunkWriter, Json], None]]] = {
        "content_block_start": _open_block,
        "content_block_delta": _add_delta,
        "content_block_stop": _close_block,
        "message_delta": _note_stop,
    }
    """Keys are event types; what is not here says nothing to a chat caller."""


def _read_index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1
