"""A stream of a response is written as chat chunks.

Text is written as it arrives. `output_item.done` has the complete item. Parts that no earlier event had are
written then, since some upstreams omit the deltas or the item's announcement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from gateway.dialects.chat import writer
from gateway.dialects.chat.tools import ARGUMENTS, ToolKind
from gateway.dialects.translate.pivot import make_usage
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.extras.responses.chat_reply import (
    REASONING,
    Paragraphs,
    Part,
    maybe_image,
    maybe_kind,
    read_arguments,
    read_parts,
    read_sources,
    to_finish_reason,
)
from gateway.extras.responses.history import maybe_phase, maybe_reasoning
from gateway.extras.responses.places import Places
from gateway.extras.responses.stream import read_items

_TEXTS: Final = {
    "response.output_text.delta": ("content", "content", "delta"),
    "response.output_text.done": ("content", "content", "text"),
    "response.refusal.delta": ("refusal", "content", "delta"),
    "response.refusal.done": ("refusal", "content", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning_content", "summary", "delta"),
    "response.reasoning_summary_text.done": ("reasoning_content", "summary", "text"),
    "response.reasoning_text.delta": ("reasoning_content", "content", "delta"),
    "response.reasoning_text.done": ("reasoning_content", "content", "text"),
}
"""By the event's type: the key of the chat delta, the array of the item that the text belongs to,
and the key of the text."""
_Place = tuple[int, tuple[str, int]]
"""An item, and the place of a text in it."""


class ChunkWriter(writer.ChoiceWriter):
    """An `EventWriter` of chat chunks."""

    __slots__ = ("_calls", "_paragraphs", "_places", "_response", "_sources", "_text_starts")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._calls: dict[int, writer.Call] = {}
        self._text_starts: dict[_Place, int] = {}
        """The number of characters of content before each text so far."""
        self._sources: defaultdict[_Place, list[Json]] = defaultdict(list)
        """The pages that texts are based on, held back until the end of the item."""
        self._paragraphs = Paragraphs()
        self._places = Places()
        self._response: Json = {}
        """The response in the terminal event."""

    def write(self, event: Json) -> None:
        write = self._WRITERS.get(get_text(event, "type"))
        if write is not None:
            write(self, event)

    def flush(self) -> None:
        for call in self._calls.values():
            self._complete(call, {})
        for where in list(self._sources):
            self._write_sources(where, ())

    def close(self, usage: ReplyUsage) -> None:
        finish = to_finish_reason(self._response, called=self._count > 0, functions=self._functions)
        self._write_end(finish, make_usage(usage, REASONING))

    def _add_text(self, event: Json) -> None:
        """Write a fragment, or a whole text unless fragments of it have come."""
        key, array, held = _TEXTS[event["type"]]
        item, index = self._places.find(event), event.get(f"{array}_index")
        place = (array, index if isinstance(index, int) else 0)
        # `done` repeats the whole text.
        if held == "delta" or (item, place) not in self._text_starts:
            self._write_part(Part(key, place, get_text(event, held)), item)

    def _write_part(self, part: Part, item: int) -> None:
        if part.text:
            self._write_text(part.key, self._paragraphs.separate(part, item))
            self._text_starts.setdefault((item, part.place), self._content_chars - len(part.text))

    def _add_source(self, event: Json) -> None:
        index = event.get("content_index")
        where = self._places.find(event), ("content", index if isinstance(index, int) else 0)
        self._sources[where] += read_sources({"annotations": [event.get("annotation")]})

    def _write_sources(self, where: _Place, final: Sequence[Json]) -> None:
        """Write the sources of a text: the complete item's (`final`), else those of earlier events."""
        came = self._sources.pop(where, ())
        if (start := self._text_starts.get(where)) is None:
            return
        for source in final or came:
            self._write_listed(
                "annotations", writer.make_annotation(writer.move_source(source, start))
            )

    def _open_item(self, event: Json) -> None:
        item, where = get_object(event, "item"), self._places.find(event)
        if kind := maybe_kind(item):
            self._find_call(item, kind, where)
        # The phase is sealed before the text: a seal after the text would become a separate block.
        elif phase := maybe_phase(item):
            self._note_state(phase)

    def _find_call(self, item: Json, kind: ToolKind, where: int) -> writer.Call:
        """Return an item's call; begin it if it is new."""
        call = self._calls.get(where)
        if call is None:
            call = self._begin_call(item.get("call_id"), item.get("name"), kind)
            self._calls[where] = call
        return call

    def _add_arguments(self, event: Json) -> None:
        """Write a fragment. For a call that was not announced, the complete item has the arguments."""
        if (call := self._calls.get(self._places.find(event))) is not None:
            self._write_arguments(call, get_text(event, "delta"))

    def _close_arguments(self, event: Json) -> None:
        call = self._calls.get(self._places.find(event))
        if call is not None and get_text(event, ARGUMENTS[call.kind]):
            self._complete(call, event)

    def _close_item(self, event: Json) -> None:
        self._write_item(self._places.find(event), get_object(event, "item"))

    def _write_item(self, where: int, item: Json) -> None:
        """Write the parts of a complete item that no earlier event had."""
        if kind := maybe_kind(item):
            # If the upstream announces no items, nothing of the call was sent before.
            self._complete(self._find_call(item, kind, where), item)
        for part in read_parts(item):
            if (where, part.place) not in self._text_starts:
                self._write_part(part, where)
            self._write_sources((where, part.place), part.sources)
        if image := maybe_image(item):
            self.text_bytes += PICTURE_BYTES
            self._write_listed("images", image)
        if encrypted := maybe_reasoning(item, self._context.provider_tag):
            self._note_state(encrypted)

    def _complete(self, call: writer.Call, item: Json) -> None:
        """Write the whole arguments, unless fragments of them have come."""
        if not call.has_arguments:
            self._write_arguments(call, read_arguments(item, call.kind))

    def _note_end(self, event: Json) -> None:
        self._response = get_object(event, "response")
        for where, item in self._places.list_unsaid(read_items(self._response)):
            self._write_item(where, item)

    _WRITERS: ClassVar[dict[str, Callable[[ChunkWriter, Json], None]]] = {
        "response.output_item.added": _open_item,
        **dict.fromkeys(_TEXTS, _add_text),
        "response.output_text.annotation.added": _add_source,
        "response.function_call_arguments.delta": _add_arguments,
        "response.function_call_arguments.done": _close_arguments,
        "response.custom_tool_call_input.delta": _add_arguments,
        "response.custom_tool_call_input.done": _close_arguments,
        "response.output_item.done": _close_item,
        "response.completed": _note_end,
        "response.incomplete": _note_end,
        "response.failed": _note_end,
    }
    """Keys are event types. Other events have nothing for a chat caller."""
