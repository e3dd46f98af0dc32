"""A chat stream as a Responses stream: its chunks as events.

The terminal event, which has the whole usage, waits until the upstream's stream is over: usage may
come with the finish reason, behind it, or in every chunk, and what the caller is told is what is
charged.
"""

from __future__ import annotations

from gateway.dialects.chat.parts import read_sources
from gateway.dialects.chat.stream import check_finish, read_fragment
from gateway.dialects.chat.usage import list_media, read_content, read_reasoning
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.responses_over_chat.items import ItemWriter
from gateway.dialects.responses_over_chat.reply import (
    make_response,
    read_incomplete,
)
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text


class ResponseWriter:
    """A `Writer` of Responses events. It writes the first choice alone, as callers ask for one."""

    __slots__ = ("_context", "_index", "_items", "_opened", "_reason", "_usage")

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._items = ItemWriter(context)
        self._index: int | None = None
        """The index of the choice that is written."""
        self._opened = False
        self._reason: str | None = None
        """Why the response is incomplete."""
        self._usage: Usage | None = None

    @property
    def text_bytes(self) -> int:
        return self._items.text_bytes

    @property
    def delivered(self) -> bool:
        return self._items.delivered

    @property
    def position(self) -> Json | None:
        """Where the stream stands, for the event of an error that continues it."""
        if not self._opened:
            return None
        response = make_response(self._context, self._items.output)
        return {"response": response, "sequence_number": self._items.sequence}

    def open(self, usage: Usage) -> None:  # noqa: ARG002 - it is told at the end
        self._opened = True
        response = make_response(self._context)
        for kind in ("response.created", "response.in_progress"):
            self._items.emit(kind, response=response)

    def write(self, event: Json) -> None:
        for choice in event["choices"]:
            if isinstance(choice, dict):
                self._write_choice(choice)

    def flush(self) -> None:
        self._items.flush(incomplete=self._reason is not None)

    def close(self, usage: Usage) -> None:
        self._usage = usage

    def finish(self) -> bytes:
        assert self._usage is not None
        response = make_response(self._context, self._items.output, self._usage, self._reason)
        return self._items.render(f"response.{response['status']}", response=response)

    def take(self) -> bytes:
        return self._items.take()

    def _write_choice(self, choice: Json) -> None:
        if self._index is None:
            self._index = choice["index"]
        if choice["index"] != self._index:
            return
        delta = get_object(choice, "delta")
        self._items.state.add(delta)
        thinking, text = read_content(delta.get("content"))
        self._items.add_text("reasoning", read_reasoning(delta) or thinking)
        self._items.add_text("text", text)
        if "annotations" in delta:
            self._items.add_sources(read_sources(delta))
        for media in list_media(delta):
            self._items.add_image(media)
        self._items.add_text("refusal", get_text(delta, "refusal"))
        for call in get_list(delta, "tool_calls"):
            if isinstance(call, dict):
                self._items.add_call(*read_fragment(call))
        if choice.get("finish_reason") is not None:
            check_finish(choice["finish_reason"])
            self._reason = read_incomplete(choice)
            self.flush()
