"""A chat stream as a messages stream: its chunks as events.

`message_delta`, which has the stop reason and the whole usage, waits until the upstream's stream is
over: usage may come with the finish reason, behind it, or in every chunk, and what the caller is
told is what is charged.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.chat.parts import read_sources
from gateway.dialects.chat.stream import check_finish, read_fragment
from gateway.dialects.chat.usage import read_content, read_reasoning
from gateway.dialects.messages.stream import STOP
from gateway.dialects.messages_over_chat.blocks import BlockWriter
from gateway.dialects.messages_over_chat.reply import (
    Stop,
    check_media,
    make_delta_usage,
    make_message,
    make_usage,
    map_stop,
)
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text


class MessageWriter:
    """A `Writer` of messages events. It writes the first choice alone, as callers ask for one."""

    __slots__ = ("_blocks", "_context", "_index", "_last", "_refusal")

    position: Final = None

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._blocks = BlockWriter(context)
        self._index: int | None = None
        """The index of the choice that is written."""
        self._last: Json | None = None
        """The choice as it was when it had its finish reason."""
        self._refusal = ""

    @property
    def text_bytes(self) -> int:
        return self._blocks.text_bytes

    @property
    def delivered(self) -> bool:
        return self._blocks.delivered

    def open(self, usage: Usage) -> None:
        message = make_message(self._context, [], Stop(), make_usage(usage))
        self._blocks.emit({"type": "message_start", "message": message})

    def write(self, event: Json) -> None:
        for choice in event["choices"]:
            if isinstance(choice, dict):
                self._write_choice(choice)

    def flush(self) -> None:
        self._blocks.flush()

    def close(self, usage: Usage) -> None:
        stop = map_stop(
            self._last or {},
            self._context,
            called_tools=self._blocks.called_tools,
            refusal=self._refusal,
        )
        told = make_delta_usage(usage)
        self._blocks.emit({"type": "message_delta", "delta": stop.fields, "usage": told})

    def finish(self) -> bytes:
        return STOP

    def take(self) -> bytes:
        return self._blocks.take()

    def _write_choice(self, choice: Json) -> None:
        if self._index is None:
            self._index = choice["index"]
        if choice["index"] != self._index:
            return
        delta = get_object(choice, "delta")
        self._blocks.state.add(delta)
        thinking, text = read_content(delta.get("content"))
        self._blocks.add_text("thinking", read_reasoning(delta) or thinking)
        self._blocks.add_text("text", text)
        if "annotations" in delta:
            self._blocks.add_sources(read_sources(delta))
        check_media(delta)
        refusal = get_text(delta, "refusal")
        self._refusal += refusal
        self._blocks.add_text("text", refusal)
        for call in get_list(delta, "tool_calls"):
            if isinstance(call, dict):
                self._blocks.add_call(*read_fragment(call))
        if choice.get("finish_reason") is not None:
            check_finish(choice["finish_reason"])
            self._last = choice
            self._blocks.flush()
