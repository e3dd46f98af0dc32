"""Deltas of a chat stream as the output items of a Responses stream.

Text and reasoning end when something else begins, as coding agents know one such item at a time.
Calls stay open until the reply is finished, since a chat upstream may mix the fragments of several.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from gateway.dialects.chat.parts import move_source
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.records import Json, ReplyContext
from gateway.dialects.responses_over_chat.custom import InputDecoder
from gateway.dialects.responses_over_chat.parts import FORMS, Form, PartKind, make_part
from gateway.dialects.responses_over_chat.reply import (
    Status,
    complete_arguments,
    make_call,
    make_image,
    make_item_id,
    make_message,
    make_reasoning,
    make_source,
    read_image,
)
from gateway.dialects.responses_over_chat.tools import ToolName, read_tool_names
from gateway.dialects.wire.sse import render_event
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.errors import UndeliverableReply
from gateway.usage import count_text

MAX_REPLY_CHARS: Final = 8 << 20
"""Characters of a stream's text, reasoning and arguments: its last event repeats all of them. It is
the length of the largest event."""


@dataclass(slots=True)
class _Said:
    """A reasoning or message item that is open, with its last part."""

    identity: str
    index: int
    kind: PartKind
    text: list[str] = field(default_factory=list)
    start: int = 0
    """Characters of text before the last part, in all of the message."""
    parts: list[Json] = field(default_factory=list)
    """The parts before the last."""
    sources: list[Json] = field(default_factory=list)
    """The annotations of the last part."""
    sealed: str = ""
    """The seals that reasoning carries, once it is over."""

    @property
    def names(self) -> Json:
        """The place of the open part, which all of its events name."""
        place = {"item_id": self.identity, "output_index": self.index}
        return {**place, FORMS[self.kind].index: len(self.parts)}

    def render(self, status: Status) -> Json:
        if self.kind == "reasoning":
            return make_reasoning(self.identity, self.parts, self.sealed)
        return make_message(self.identity, self.parts, status)


@dataclass(slots=True)
class _Call:
    identity: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)
    """The arguments, or the input of the custom tool call in progress."""
    item: Json | None = None
    """The head of the item, once it is open: the name was told."""
    index: int = -1
    decoder: InputDecoder | None = None
    """The decoder of a custom tool's input; None for a function."""
    closed: bool = False


class ItemWriter:
    """Takes fragments, writes events. Raises UndeliverableReply for what no reply can hold."""

    __slots__ = (
        "_calls",
        "_content_chars",
        "_context",
        "_done",
        "_held_chars",
        "_next_index",
        "_out",
        "_said",
        "_sources",
        "_tools",
        "_unfinished",
        "sequence",
        "state",
        "text_bytes",
    )

    def __init__(self, context: ReplyContext) -> None:
        self.text_bytes = 0
        """See `Writer`."""
        self.sequence = 0
        """The number of the next event."""
        self.state = StateCollector(context.provider_tag)
        self._context = context
        self._content_chars = 0
        self._sources: list[Json] = []
        """Sources that came while no text was open."""
        self._tools: dict[str, ToolName] | None = None
        self._out: list[bytes] = []
        self._held_chars = 0
        self._next_index = 0
        self._said: _Said | None = None
        self._calls: dict[int, _Call] = {}
        """The latest call at each position."""
        self._unfinished: list[_Call] = []
        self._done: dict[int, Json] = {}

    @property
    def delivered(self) -> bool:
        """See `Writer`: an item is opened for text, or for a tool that has a name."""
        return self._next_index > 0

    @property
    def output(self) -> list[Json]:
        """The items that are done."""
        return [self._done[index] for index in sorted(self._done)]

    def take(self) -> bytes:
        """Return the events since the last call."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def emit(self, kind: str, **fields: Any) -> None:
        self._out.append(self.render(kind, **fields))
        self.sequence += 1

    def render(self, kind: str, **fields: Any) -> bytes:
        """Write the next event, which is not sent yet."""
        return render_event({"type": kind, "sequence_number": self.sequence, **fields})

    def add_text(self, kind: PartKind, text: str) -> None:
        if not text:
            return
        self.text_bytes += count_text(text)
        self._hold(text)
        form = FORMS[kind]
        said = self._said
        if said is None or said.kind != kind:
            said = self._begin_part(kind, form)
        said.text.append(text)
        self.emit(f"{form.text}.delta", **said.names, delta=text, **form.extra)
        if kind == "text":
            self._content_chars += len(text)
            if self._sources:
                self.add_sources([])

    def add_sources(self, sources: list[Json]) -> None:
        """Add sources, and those that came before, to the text that is open."""
        self._sources += sources
        said = self._said
        if said is None or said.kind != "text":
            return
        for one in self._sources:
            source = make_source(move_source(one, -said.start))
            place = {**said.names, "annotation_index": len(said.sources)}
            self.emit("response.output_text.annotation.added", **place, annotation=source)
            said.sources.append(source)
        self._sources.clear()

    def add_image(self, media: Any) -> None:
        """Write an image, of which chat tells nothing before it is whole."""
        form, data = read_image(media)
        self.text_bytes += PICTURE_BYTES
        self._hold(data)
        self._close_said("completed")
        index = self._next_index
        item = make_image(make_item_id("ig", self._context, index), (form, data))
        self._add_item(index, {**item, "status": "in_progress", "result": None})
        for stage in ("in_progress", "generating", "completed"):
            kind = f"response.image_generation_call.{stage}"
            self.emit(kind, item_id=item["id"], output_index=index)
        self._end_item(index, item)

    def add_call(self, position: int, identity: str, name: str, arguments: str) -> None:
        """Add a fragment of the call at `position`; identity, name and arguments may each be empty."""
        self.text_bytes += count_text(arguments)  # what waits was made, too
        self._hold(arguments)
        call = self._calls.get(position)
        if call is None:
            call = self._calls[position] = _Call()
            self._unfinished.append(call)
        call.identity = call.identity or identity
        call.name = call.name or name
        if call.closed:
            if arguments.strip():
                raise UndeliverableReply("The upstream added to a tool call that was complete.")
        elif call.item is not None:
            self._write_arguments(call, arguments)
        else:
            call.fragments.append(arguments)
            if call.name:
                self._open_call(call)

    def flush(self, *, incomplete: bool) -> None:
        """Close everything that is open: no fragment is missing, unless the last item is cut off."""
        for call in self._unfinished:
            if not call.name:
                raise UndeliverableReply("The upstream called a tool without naming it.")
        items: list[_Said | _Call] = [*self._unfinished, *([self._said] if self._said else [])]
        for item in sorted(items, key=lambda one: one.index):
            is_cut = incomplete and item.index == self._next_index - 1
            status: Status = "incomplete" if is_cut else "completed"
            if isinstance(item, _Call):
                self._close_call(item, status)
            else:
                self._close_said(status)
        self._unfinished.clear()
        self._add_state()

    def _begin_part(self, kind: PartKind, form: Form) -> _Said:
        """Open a part; in the item that is open if it is one of the same kind."""
        said = self._said
        if said is not None and FORMS[said.kind].prefix == form.prefix:
            self._close_part(said)
            said.kind = kind
        else:
            self._close_said("completed")
            if kind != "reasoning":
                self._add_state()
            identity = make_item_id(form.prefix, self._context, self._next_index)
            said = self._said = _Said(identity, self._next_index, kind)
            self._add_item(said.index, said.render("in_progress"))
        said.start = self._content_chars
        self.emit(form.added, **said.names, part=make_part(kind, ""))
        return said

    def _close_part(self, said: _Said) -> None:
        form, text = FORMS[said.kind], "".join(said.text)
        part = make_part(said.kind, text, said.sources)
        self.emit(f"{form.text}.done", **said.names, **{form.key: text}, **form.extra)
        self.emit(form.part_done, **said.names, part=part)
        said.parts.append(part)
        said.text.clear()
        said.sources.clear()

    def _close_said(self, status: Status) -> None:
        said, self._said = self._said, None
        if said is not None:
            self._close_part(said)
            if said.kind == "reasoning":
                said.sealed = self.state.take_any()
            self._end_item(said.index, said.render(status))

    def _add_state(self) -> None:
        """Give what the upstream wants back an item of its own, unless reasoning carried it."""
        if sealed := self.state.take():
            index = self._next_index
            item = make_reasoning(make_item_id("rs", self._context, index), [], sealed)
            self._add_item(index, item)
            self._end_item(index, item)

    def _open_call(self, call: _Call) -> None:
        self._close_said("completed")
        self._add_state()
        if self._tools is None:
            self._tools = read_tool_names(self._context.request.body)
        tool = self._tools.get(call.name, ToolName(call.name))
        call.index = self._next_index
        call.item = make_call(tool, call.index, call.identity, self._context)
        call.decoder = InputDecoder() if tool.is_custom else None
        empty: Json = {"input" if tool.is_custom else "arguments": ""}
        self._add_item(call.index, {**call.item, **empty, "status": "in_progress"})
        waiting = "".join(call.fragments)
        call.fragments.clear()
        self._write_arguments(call, waiting)

    def _write_arguments(self, call: _Call, arguments: str) -> None:
        if call.decoder is not None:
            arguments = call.decoder.feed(arguments)
        self._write_fragment(call, arguments)

    def _write_fragment(self, call: _Call, text: str) -> None:
        if text:
            call.fragments.append(text)
            self._emit_call(call, "delta", delta=text)

    def _close_call(self, call: _Call, status: Status) -> None:
        assert call.item is not None  # it has a name
        rest = call.decoder.close() if call.decoder else complete_arguments("".join(call.fragments))
        self._write_fragment(call, rest)
        key = "input" if call.decoder else "arguments"
        whole: Json = {key: "".join(call.fragments)}
        name = {} if call.decoder else {"name": call.item["name"]}
        self._emit_call(call, "done", **whole, **name)
        self._end_item(call.index, {**call.item, **whole, "status": status})
        call.closed = True

    def _emit_call(self, call: _Call, stage: str, **fields: Any) -> None:
        assert call.item is not None
        kind = "custom_tool_call_input" if call.decoder else "function_call_arguments"
        place = {"item_id": call.item["id"], "output_index": call.index}
        self.emit(f"response.{kind}.{stage}", **place, **fields)

    def _add_item(self, index: int, item: Json) -> None:
        self._next_index += 1
        self.emit("response.output_item.added", output_index=index, item=item)

    def _end_item(self, index: int, item: Json) -> None:
        self._done[index] = item
        self.emit("response.output_item.done", output_index=index, item=item)

    def _hold(self, text: str) -> None:
        self._held_chars += len(text)
        if self._held_chars > MAX_REPLY_CHARS:
            raise UndeliverableReply("The upstream's reply is too large.")
