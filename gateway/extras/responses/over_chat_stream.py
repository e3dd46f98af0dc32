"""A chat stream as a Responses stream: the deltas of its chunks as output items.

One item is open at a time, as coding agents cannot handle two: `FirstChoiceWriter` orders them.

The terminal event, which has the whole usage, is sent only after the upstream's stream has ended: usage may
come with the finish reason, after it, or in every chunk, and the caller gets the usage that is charged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.chat.writer import move_source
from gateway.dialects.translate.first_choice import Call, FirstChoiceWriter, Kind
from gateway.dialects.wire.customs import InputDecoder
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.sse import render_event
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.extras.responses import over_chat_reply as reply
from gateway.extras.responses.compaction import asks_summary, make_summary
from gateway.extras.responses.over_chat_tools import ToolName, read_tool_names


@dataclass(frozen=True, slots=True)
class Form:
    """The names in the events of one kind of part."""

    prefix: str
    """The prefix of the item's id, which distinguishes the kinds of items."""
    index: str
    part: str
    """The events of the part, between `response.` and `.added` or `.done`."""
    text: str
    """The events of the text, between `response.` and `.delta` or `.done`."""
    key: str
    extra: Json


FORMS: Final[dict[Kind, Form]] = {
    "reasoning": Form(
        "rs", "summary_index", "reasoning_summary_part", "reasoning_summary_text", "text", {}
    ),
    "refusal": Form("msg", "content_index", "content_part", "refusal", "refusal", {}),
    "text": Form("msg", "content_index", "content_part", "output_text", "text", {"logprobs": []}),
}


@dataclass(slots=True)
class _OpenItem:
    """A reasoning or message item that is open, with its last part."""

    identity: str
    index: int
    kind: Kind
    text: list[str] = field(default_factory=list)
    start: int = 0
    """Characters of text before the last part, in all of the message."""
    parts: list[Json] = field(default_factory=list)
    """The parts before the last."""
    sources: list[Json] = field(default_factory=list)
    """The annotations of the open part."""
    sealed: str = ""
    """The seals in a reasoning item, set when it ends."""

    @property
    def names(self) -> Json:
        """The members that all events of the open part have: its place."""
        place = {"item_id": self.identity, "output_index": self.index}
        return {**place, FORMS[self.kind].index: len(self.parts)}

    def render(self, status: reply.Status) -> Json:
        if self.kind == "reasoning":
            return reply.make_reasoning(self.identity, self.parts, self.sealed)
        return reply.make_message(self.identity, self.parts, status)


@dataclass(slots=True)
class _CallItem:
    """The item of the call that is open."""

    head: Json
    index: int
    decoder: InputDecoder | None
    """The decoder of a custom tool's input; None for a function."""
    fragments: list[str] = field(default_factory=list)
    """The arguments, or the input."""


class ResponseWriter(FirstChoiceWriter):
    """Writes Responses events. Raises UndeliverableReply for content that Responses cannot represent."""

    __slots__ = (
        "_call_item", "_done", "_ending", "_item", "_reason", "_sequence", "_tools",
    )  # fmt: skip

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._sequence = 0
        """The number of the next event."""
        self._tools: dict[str, ToolName] | None = None
        self._item: _OpenItem | None = None
        self._call_item: _CallItem | None = None
        self._done: dict[int, Json] = {}
        """The items that have ended, by index."""
        self._reason: str | None = None
        """Why the response is incomplete."""
        self._ending = b""

    @property
    def position(self) -> Json | None:
        """See `Pipeline`: the number of the next event, and the response so far."""
        if not self._sequence:
            return None
        response = reply.make_response(self._context, self._output)
        return {"response": response, "sequence_number": self._sequence}

    def open(self, usage: ReplyUsage) -> None:  # noqa: ARG002 - the terminal event has the usage
        response = reply.make_response(self._context)
        for stage in ("created", "in_progress"):
            self._emit(stage, response=response)

    def close(self, usage: ReplyUsage) -> None:
        response = reply.make_response(self._context, self._output, usage, self._reason)
        self._ending = self._render(response["status"], response=response)

    def take_last(self) -> bytes:
        return self._ending

    @property
    def _output(self) -> list[Json]:
        return [self._done[index] for index in sorted(self._done)]

    def _close_last(self) -> None:
        self._close_item(self._end_status)
        self._add_state()

    @property
    def _end_status(self) -> reply.Status:
        """The status of the open item if it ends now: if the response is incomplete, the last item is."""
        is_cut = self._reason is not None and not self._waiting
        return "incomplete" if is_cut else "completed"

    def _finish(self, choice: Json) -> None:
        self._reason = reply.read_incomplete(choice)

    def _write_text(self, kind: Kind, text: str) -> None:
        self._count_buffered(text)
        form, item = FORMS[kind], self._item
        if item is None or item.kind != kind:
            item = self._begin_part(kind, form)
        item.text.append(text)
        self._emit(f"{form.text}.delta", **item.names, delta=text, **form.extra)
        if kind == "text":
            self._content_chars += len(text)
            if self._sources:
                self._add_sources([])

    def _add_sources(self, sources: list[Json]) -> None:
        """Add sources, and those held back, to the open text; without one they are held back."""
        self._sources += sources
        item = self._item
        if item is None or item.kind != "text":
            return
        for one in self._sources:
            source = reply.make_source(move_source(one, -item.start))
            place = {**item.names, "annotation_index": len(item.sources)}
            self._emit("output_text.annotation.added", **place, annotation=source)
            item.sources.append(source)
        self._sources.clear()

    def _write_media(self, media: object) -> None:
        """Write an image, which chat sends only as a whole."""
        form, data = reply.read_image(media)
        self.text_bytes += PICTURE_BYTES
        self._count_buffered(data)
        self._close_item("completed")
        index = self._next_index
        item = reply.make_image(reply.make_item_id("ig", self._context, index), (form, data))
        self._add_item(index, {**item, "status": "in_progress", "result": None})
        for stage in ("in_progress", "generating", "completed"):
            kind = f"image_generation_call.{stage}"
            self._emit(kind, item_id=item["id"], output_index=index)
        self._end_item(index, item)

    def _begin_part(self, kind: Kind, form: Form) -> _OpenItem:
        """Open a part, in the open item if that is of the same kind."""
        item = self._item
        if item is not None and FORMS[item.kind].prefix == form.prefix:
            self._close_part(item)
            item.kind = kind
        else:
            self._close_item("completed")
            if kind != "reasoning":  # sealed reasoning led to the text, so it comes before the text
                self._add_state()
            identity = reply.make_item_id(form.prefix, self._context, self._next_index)
            item = self._item = _OpenItem(identity, self._next_index, kind)
            self._add_item(item.index, item.render("in_progress"))
        item.start = self._content_chars
        self._emit(f"{form.part}.added", **item.names, part=reply.make_part(kind, ""))
        return item

    def _close_part(self, item: _OpenItem) -> None:
        form, text = FORMS[item.kind], "".join(item.text)
        part = reply.make_part(item.kind, text, item.sources)
        self._emit(f"{form.text}.done", **item.names, **{form.key: text}, **form.extra)
        self._emit(f"{form.part}.done", **item.names, part=part)
        item.parts.append(part)
        item.text.clear()
        item.sources.clear()

    def _close_item(self, status: reply.Status) -> None:
        item, self._item = self._item, None
        if item is not None:
            self._close_part(item)
            if item.kind == "reasoning":
                item.sealed = self._state.take_any()
            self._end_item(item.index, item.render(status))

    def _add_state(self) -> None:
        """Send the state that the upstream wants back as a separate item, unless reasoning carried it."""
        if sealed := self._state.take():
            index = self._next_index
            item = reply.make_reasoning(reply.make_item_id("rs", self._context, index), [], sealed)
            self._add_item(index, item)
            self._end_item(index, item)

    def _open_call(self, call: Call) -> None:
        self._close_item("completed")
        self._add_state()
        if self._tools is None:  # read late: most replies call nothing, and requests may be large
            self._tools = read_tool_names(self._context.request.body)
        tool, index = self._tools.get(call.name, ToolName(call.name)), self._next_index
        head = reply.make_call(tool, index, call.identity, self._context)
        self._call_item = _CallItem(head, index, InputDecoder() if tool.is_custom else None)
        empty: Json = {"input" if tool.is_custom else "arguments": ""}
        self._add_item(index, {**head, **empty, "status": "in_progress"})

    def _write_arguments(self, call: Call, text: str) -> None:  # noqa: ARG002 - there is one open
        item = self._call_item
        assert item is not None
        self._write_fragment(item, item.decoder.feed(text) if item.decoder else text)

    def _write_fragment(self, item: _CallItem, text: str) -> None:
        if text:
            item.fragments.append(text)
            self._emit_call(item, "delta", delta=text)

    def _close_call(self, call: Call) -> None:
        item, self._call_item = self._call_item, None
        assert item is not None
        rest = item.decoder.close() if item.decoder else reply.complete_arguments(call.arguments)
        self._write_fragment(item, rest)
        key = "input" if item.decoder else "arguments"
        whole: Json = {key: "".join(item.fragments)}
        name = {} if item.decoder else {"name": item.head["name"]}
        self._emit_call(item, "done", **whole, **name)
        self._end_item(item.index, {**item.head, **whole, "status": self._end_status})

    def _emit_call(self, item: _CallItem, stage: str, **fields: object) -> None:
        kind = "custom_tool_call_input" if item.decoder else "function_call_arguments"
        place = {"item_id": item.head["id"], "output_index": item.index}
        self._emit(f"{kind}.{stage}", **place, **fields)

    def _add_item(self, index: int, item: Json) -> None:
        self._next_index += 1
        self._emit("output_item.added", output_index=index, item=item)

    def _end_item(self, index: int, item: Json) -> None:
        self._done[index] = item
        self._emit("output_item.done", output_index=index, item=item)

    def _emit(self, kind: str, **fields: object) -> None:
        self.out.append(self._render(kind, **fields))
        self._sequence += 1

    def _render(self, kind: str, **fields: object) -> bytes:
        """Return the bytes of the next event, without sending it."""
        return render_event(
            {"type": f"response.{kind}", "sequence_number": self._sequence, **fields}
        )


class SummaryWriter(ResponseWriter):
    """Writes the model's text as one item, a summary, once it is whole."""

    __slots__ = ("_texts",)

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._texts: list[str] = []

    def flush(self) -> None:
        # Half a summary would pass for the whole conversation.
        if self._done or self._reason is not None:
            return
        identity = reply.make_item_id(reply.SUMMARY_PREFIX, self._context, 0)
        item = make_summary(identity, "".join(self._texts))
        self._add_item(0, item)
        self._end_item(0, item)

    def _write_text(self, kind: Kind, text: str) -> None:
        self._count_buffered(text)
        if kind == "text":
            self._texts.append(text)

    def _add_sources(self, sources: list[Json]) -> None:
        """Leave sources out, since a summary is only text. Calls and pictures below are left out, too."""

    def _write_media(self, media: object) -> None: ...

    def _add_call(self, position: int, identity: str, name: str, arguments: str) -> None: ...


def open_writer(context: ReplyContext) -> ResponseWriter:
    return (SummaryWriter if asks_summary(context.request.body) else ResponseWriter)(context)
