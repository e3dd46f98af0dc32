"""A response, or a stream of one, as a chat completion: its items, its ending and its usage.

Only the items count: some upstreams leave shortcuts such as `output_text` empty. In a stream, text is
written as it arrives. `output_item.done` has the complete item; parts that no earlier event had are
written then, since some upstreams omit the deltas or the item's announcement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from gateway.base.errors import UpstreamError
from gateway.dialects.chat import writer
from gateway.dialects.translate.pivot import make_usage
from gateway.dialects.wire.call_ids import ReplyIds
from gateway.dialects.wire.failures import read_error
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.seals import seal
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.extras.responses.history import maybe_phase, maybe_reasoning
from gateway.extras.responses.places import Places
from gateway.extras.responses.stream import read_items

_CALLS: Final[dict[str, writer.ToolKind]] = {
    "function_call": "function",
    "custom_tool_call": "custom",
}
"""The type of a chat tool by the type of the item that calls it."""
_SPEAKING: Final = ("message", "reasoning")
_PARTS: Final = {
    "output_text": ("content", "text"),
    "refusal": ("refusal", "refusal"),
    "summary_text": ("reasoning_content", "text"),
    "reasoning_text": ("reasoning_content", "text"),
}
"""By the type of a part: the key of the chat message, and the key of the part's text."""
REASONING: Final = "reasoning_tokens"
"""The detail of the usage that says how long the model thought."""
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


class Part(NamedTuple):
    """A text within an item."""

    key: str
    """The member of a chat message that the text goes to."""
    place: tuple[str, int]
    """Its place in the item: the array and the index."""
    text: str
    sources: Sequence[Json] = ()
    """The pages that it is based on, with their places in it."""


def read_parts(item: Json) -> Iterator[Part]:
    """Read the texts of an item. Calls, and tools that the upstream ran, have none."""
    if item.get("type") not in _SPEAKING:
        return
    for name in ("summary", "content"):
        for index, part in enumerate(get_list(item, name)):
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in _PARTS:
                key, held = _PARTS[kind]
                yield Part(key, (name, index), get_text(part, held), read_sources(part))


def read_sources(part: Json) -> list[Json]:
    """Read the pages in the annotations of a part; files are left out."""
    given = (one for one in get_list(part, "annotations") if isinstance(one, dict))
    return [source for one in given if (source := writer.maybe_source(one))]


class Paragraphs:
    """Separates the messages of a reply, and the parts of its reasoning."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, Hashable] = {}

    def separate(self, part: Part, item: Hashable) -> str:
        """Return a fragment of a text, after a blank line if it begins a paragraph."""
        if not part.text:
            return ""
        paragraph = (item, part.place) if part.key == "reasoning_content" else item
        last = self._last.setdefault(part.key, paragraph)
        self._last[part.key] = paragraph
        return part.text if last == paragraph else writer.BLOCK_SEPARATOR + part.text


def translate_reply(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
    """Write a chat completion of what the upstream said."""
    functions = writer.uses_functions(context.request.body)
    items, paragraphs = read_items(reply), Paragraphs()
    texts = dict.fromkeys(("content", "refusal", "reasoning_content"), "")
    sources: list[Json] = []
    for number, item in enumerate(items):
        for part in read_parts(item):
            texts[part.key] += paragraphs.separate(part, number)
            start = len(texts[part.key]) - len(part.text)
            sources += (
                writer.make_annotation(writer.move_source(one, start)) for one in part.sources
            )
    ids = ReplyIds(context)
    calls = [_make_call(item, kind, ids) for item in items if (kind := maybe_kind(item))]
    text, refusal, reasoning = texts.values()
    images = [image for item in items if (image := maybe_image(item))]
    message = writer.make_message(
        text, refusal, reasoning, calls, functions=functions, annotations=sources, images=images
    )
    tag = context.provider_tag
    if kept := [one for item in items if (one := maybe_reasoning(item, tag) or maybe_phase(item))]:
        writer.carry_state(message, seal(kept, tag), context)
    finish = to_finish_reason(reply, called=bool(calls), functions=functions)
    return writer.make_completion(message, finish, context, make_usage(usage, REASONING))


def maybe_image(item: Json) -> Json | None:
    """Write the picture of an item; None for items without a picture."""
    if item.get("type") != "image_generation_call" or not (data := get_text(item, "result")):
        return None
    url = f"data:image/{get_text(item, 'output_format') or 'png'};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}}


def maybe_kind(item: Json) -> writer.ToolKind | None:
    """Return the type of the tool that an item calls; None for an item that calls none."""
    return _CALLS.get(get_text(item, "type"))


def read_arguments(item: Json, kind: writer.ToolKind) -> str:
    """Read the arguments of a call; a function without any gets an empty object."""
    given = get_text(item, writer.ARGUMENTS[kind])
    return given or (writer.NO_ARGUMENTS if kind == "function" else "")


def _make_call(item: Json, kind: writer.ToolKind, ids: ReplyIds) -> Json:
    tool = {"name": item.get("name"), writer.ARGUMENTS[kind]: read_arguments(item, kind)}
    return {"id": ids.give(item.get("call_id"), item.get("name")), "type": kind, kind: tool}


def to_finish_reason(reply: Json, *, called: bool, functions: bool) -> str:
    """Read how a reply ended. Raises UpstreamError for one that failed.

    `called`: the reply has tool calls; `functions`: the caller knows no tools.
    """
    match reply.get("status"):
        case "failed" | "cancelled":
            message = read_error(reply).message
            raise UpstreamError(message or "The upstream ended its reply with an error.")
        case "incomplete":
            reason = get_object(reply, "incomplete_details").get("reason")
            # Chat has one word for all reasons to cut a reply short, except the filter.
            return "content_filter" if reason == "content_filter" else "length"
        case _:
            if not called:
                return "stop"
            return "function_call" if functions else "tool_calls"


@dataclass(slots=True)
class _Call:
    number: int
    kind: writer.ToolKind
    has_arguments: bool = False
    """Arguments were written."""


class ChunkWriter(writer.ChoiceWriter):
    """An `EventWriter` of chat chunks."""

    __slots__ = ("_calls", "_paragraphs", "_places", "_response", "_sources", "_text_starts")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._calls: dict[int, _Call] = {}
        self._text_starts: dict[_Place, int] = {}
        """The number of characters of content before each text that has come."""
        self._sources: defaultdict[_Place, list[Json]] = defaultdict(list)
        """The pages that texts are based on: they wait for the end of the item."""
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
        """Write the sources of a text: the `final` ones from its end, else those sent before."""
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
        # Taken before the text: what is sealed behind it would be a block of its own.
        elif phase := maybe_phase(item):
            self._note_state(phase)

    def _find_call(self, item: Json, kind: writer.ToolKind, where: int) -> _Call:
        """Return an item's call; begin it if it is new."""
        call = self._calls.get(where)
        if call is None:
            number = self._begin_call(item.get("call_id"), item.get("name"), kind)
            call = self._calls[where] = _Call(number, kind)
        return call

    def _add_arguments(self, event: Json) -> None:
        """Write a fragment; without the call's announcement, the complete item has the arguments."""
        call, fragment = self._calls.get(self._places.find(event)), get_text(event, "delta")
        if call is not None and fragment:
            call.has_arguments = True
            self._write_arguments(call.number, fragment, call.kind)

    def _close_arguments(self, event: Json) -> None:
        call = self._calls.get(self._places.find(event))
        if call is not None and get_text(event, writer.ARGUMENTS[call.kind]):
            self._complete(call, event)

    def _close_item(self, event: Json) -> None:
        self._write_item(self._places.find(event), get_object(event, "item"))

    def _write_item(self, where: int, item: Json) -> None:
        """Write what an item has that did not come before."""
        if kind := maybe_kind(item):
            # Upstreams that announce no item have sent nothing of the call before.
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

    def _complete(self, call: _Call, item: Json) -> None:
        """Write the whole arguments, unless fragments of them have come."""
        arguments = read_arguments(item, call.kind)
        if arguments and not call.has_arguments:
            call.has_arguments = True
            self._write_arguments(call.number, arguments, call.kind)

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
    """Keys are event types; what is not here says nothing to a chat caller."""
