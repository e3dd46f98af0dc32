"""A Responses stream as a chat stream: its events as chunks.

Text goes out as it comes. An item is complete in its `output_item.done`; what of it came in no event
before is written then, since some upstreams leave the deltas out, or the item's announcement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from gateway.dialects.chat.parts import make_annotation, move_source
from gateway.dialects.chat.writer import ARGUMENTS, ChoiceWriter, ToolKind
from gateway.dialects.chat_over_responses.reply import (
    Paragraphs,
    Part,
    make_usage,
    maybe_image,
    maybe_kind,
    read_arguments,
    read_parts,
    read_sources,
    to_finish_reason,
)
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.responses.history import maybe_reasoning
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.stream import PICTURE_BYTES

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


_Place = tuple[int | str, tuple[str, int]]
"""An item, and the place of a text in it."""


@dataclass(slots=True)
class _Call:
    number: int
    kind: ToolKind
    said: bool = False
    """Arguments have come."""


class ChunkWriter(ChoiceWriter):
    """A `Writer` of chat chunks."""

    __slots__ = ("_calls", "_paragraphs", "_response", "_said", "_sources")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._calls: dict[int | str, _Call] = {}
        self._said: dict[_Place, int] = {}
        """The texts that have come, with the number of characters of content before each."""
        self._sources: defaultdict[_Place, list[Json]] = defaultdict(list)
        """The pages that texts are based on: they wait for the end of the item."""
        self._paragraphs = Paragraphs()
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

    def close(self, usage: Usage) -> None:
        finish = to_finish_reason(self._response, called=self._count > 0, functions=self._functions)
        self._write_end(finish, make_usage(usage))

    def _add_text(self, event: Json) -> None:
        """Write a fragment, or a whole text unless fragments of it have come."""
        key, array, held = _TEXTS[event["type"]]
        item, index = _find_item(event), event.get(f"{array}_index")
        place = (array, index if isinstance(index, int) else 0)
        if held == "delta" or (item, place) not in self._said:
            self._write_part(Part(key, place, get_text(event, held)), item)

    def _write_part(self, part: Part, item: int | str) -> None:
        if part.text:
            self._write_text(part.key, self._paragraphs.separate(part, item))
            self._said.setdefault((item, part.place), self._content_chars - len(part.text))

    def _add_source(self, event: Json) -> None:
        index = event.get("content_index")
        where = _find_item(event), ("content", index if isinstance(index, int) else 0)
        self._sources[where] += read_sources({"annotations": [event.get("annotation")]})

    def _write_sources(self, where: _Place, told: Sequence[Json]) -> None:
        """Write the sources of a text: those `told` at its end, else those that have come."""
        came = self._sources.pop(where, ())
        if (start := self._said.get(where)) is None:
            return
        for source in told or came:
            self._write_listed("annotations", make_annotation(move_source(source, start)))

    def _open_item(self, event: Json) -> None:
        item = get_object(event, "item")
        if kind := maybe_kind(item):
            self._find_call(item, kind, _find_item(event))

    def _find_call(self, item: Json, kind: ToolKind, where: int | str) -> _Call:
        """Return an item's call, which is begun if it is new."""
        call = self._calls.get(where)
        if call is None:
            number = self._begin_call(item.get("call_id"), item.get("name"), kind)
            call = self._calls[where] = _Call(number, kind)
        return call

    def _add_arguments(self, event: Json) -> None:
        """Write a fragment; without the call's announcement, the complete item has the arguments."""
        call, fragment = self._calls.get(_find_item(event)), get_text(event, "delta")
        if call is not None and fragment:
            call.said = True
            self._write_arguments(call.number, fragment, call.kind)

    def _close_arguments(self, event: Json) -> None:
        call = self._calls.get(_find_item(event))
        if call is not None and get_text(event, ARGUMENTS[call.kind]):
            self._complete(call, event)

    def _close_item(self, event: Json) -> None:
        item, where = get_object(event, "item"), _find_item(event)
        if kind := maybe_kind(item):
            self._complete(self._find_call(item, kind, where), item)
        for part in read_parts(item):
            if (where, part.place) not in self._said:
                self._write_part(part, where)
            self._write_sources((where, part.place), part.sources)
        if image := maybe_image(item):
            self.text_bytes += PICTURE_BYTES
            self._write_listed("images", image)
        if encrypted := maybe_reasoning(item, self._context.provider_tag):
            self._note_state(encrypted)

    def _complete(self, call: _Call, held: Json) -> None:
        """Write the whole arguments, unless fragments of them have come."""
        arguments = read_arguments(held, call.kind)
        if arguments and not call.said:
            call.said = True
            self._write_arguments(call.number, arguments, call.kind)

    def _note_end(self, event: Json) -> None:
        self._response = get_object(event, "response")

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
    """Keys are event types; what is not here says nothing to a chat caller."""


def _find_item(event: Json) -> int | str:
    """Return what tells an item from the others: its index, else its id."""
    index = event.get("output_index")
    if isinstance(index, int):
        return index
    return get_text(event, "item_id") or get_text(get_object(event, "item"), "id")
