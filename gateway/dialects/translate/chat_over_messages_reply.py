"""A message, or a stream of one, as a chat completion: its blocks, its ending and its usage.

In a stream, the finish reason waits for the end: a later `message_delta` may revise it, and no chunk of
a choice may follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import ClassVar, Final

from gateway.dialects.chat import writer
from gateway.dialects.chat.tools import ARGUMENTS, ToolKind, name_customs
from gateway.dialects.messages.history import THINKING, Place, maybe_thinking, note_place
from gateway.dialects.messages.upstream import dump_arguments, read_blocks
from gateway.dialects.translate.pivot import make_usage
from gateway.dialects.wire.call_ids import ReplyIds
from gateway.dialects.wire.customs import InputDecoder, read_input
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.seals import seal

_PAGE: Final = "web_search_result_location"
FINISH_REASONS: Final = {
    **dict.fromkeys(("end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded", "pause_turn"), "length"),
    "tool_use": "tool_calls",
    **dict.fromkeys(("refusal", "sensitive"), "content_filter"),  # Zhipu says `sensitive`
}
"""Finish reasons by stop reason; an unknown one is `stop`. A paused turn is not finished, so it is `length`."""
REASONING: Final = "thinking_tokens"
"""The detail of the usage that says how long the model thought."""
_TEXT_KEYS: Final = {"text": "content", "thinking": "reasoning_content"}
"""The chat delta's key by the block's type, which is also the key of the block's text."""
_SIGNED: Final = ("thinking", "signature")
"""Texts of a block of thinking that come in fragments."""
_KEPT: Final = THINKING | {"text", "tool_use"}
"""Blocks that chat callers send back. Thinking after any other block, such as a search, would come back
without that block before it, which the upstream refuses."""
_AT_ONCE: Final = 64
"""Fragments of text that are counted together: counting each would take a quarter of an event's time."""
_FRAGMENTS: Final = {"text_delta": "text", "thinking_delta": "thinking"}


def translate_reply(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
    """Write a chat completion from a message."""
    functions = writer.uses_functions(context.request.body)
    blocks = read_blocks(reply)
    ids, customs = ReplyIds(context), name_customs(context.request.body)
    calls = [_make_call(one, ids, customs) for one in blocks if one.get("type") == "tool_use"]
    thinking = [*_read_thinking(blocks, context)]
    text, reasoning = _join(blocks, "text"), _join(blocks, "thinking")
    stop, details = get_text(reply, "stop_reason"), get_object(reply, "stop_details")
    finish, refusal = read_ending(stop, details, called=bool(calls), functions=functions)
    message = writer.make_message(
        text, refusal, reasoning, calls, functions=functions, annotations=_read_sources(blocks)
    )
    if thinking:
        writer.carry_state(message, seal(thinking, context.provider_tag), context)
    return writer.make_completion(message, finish, context, make_usage(usage, REASONING))


def _join(blocks: list[Json], kind: str) -> str:
    """Join the texts of all blocks of a type. The type is also the key of the text."""
    return "".join(get_text(block, kind) for block in blocks if block.get("type") == kind)


def _read_thinking(blocks: list[Json], context: ReplyContext) -> Iterator[Json]:
    """Yield the signed blocks of thinking, with their places; see `_KEPT`."""
    place, calls = Place(context.request_id), 0
    for block in takewhile(lambda one: get_text(one, "type") in _KEPT, blocks):
        if thinking := maybe_thinking(block):
            yield note_place(thinking, place._replace(calls=calls))
        place = place.add(_join([block], "text"))
        calls += block.get("type") == "tool_use"


def _read_sources(blocks: list[Json]) -> list[Json]:
    """Read the citations of all blocks, with the places of the blocks in their joined text."""
    found: list[Json] = []
    end = 0
    for block in blocks:
        if block.get("type") == "text":
            start, end = end, end + len(get_text(block, "text"))
            found += (cite(one, start, end) for one in read_citations(block))
    return found


def read_citations(block: Json) -> list[Json]:
    """Read the web pages that a text block cites. Citations of the request's documents are left out."""
    given = get_list(block, "citations")
    return [one for one in given if isinstance(one, dict) and one.get("type") == _PAGE]


def cite(citation: Json, start: int, end: int) -> Json:
    """Write the annotation of the text from `start` to `end`."""
    page = {key: get_text(citation, key) for key in ("url", "title")}
    return writer.make_annotation({"start_index": start, "end_index": end, **page})


def _make_call(block: Json, ids: ReplyIds, customs: frozenset[str]) -> Json:
    arguments, name = dump_arguments(block.get("input")), block.get("name")
    kind: ToolKind = "custom" if get_text(block, "name") in customs else "function"
    said = read_input(arguments) if kind == "custom" else arguments or writer.NO_ARGUMENTS
    tool = {"name": name, ARGUMENTS[kind]: said}
    return {"id": ids.give(block.get("id"), name), "type": kind, kind: tool}


def read_ending(
    stop_reason: str, details: Json, *, called: bool, functions: bool
) -> tuple[str, str | None]:
    """Read the finish reason, and the upstream's explanation if it refused.

    `called`: the reply has tool calls; `functions`: the caller knows no tools.
    """
    finish = FINISH_REASONS.get(stop_reason, "stop")
    if finish in ("stop", "tool_calls"):
        finish = "tool_calls" if called else "stop"
    if finish == "tool_calls" and functions:
        finish = "function_call"
    explanation = get_text(details, "explanation") if stop_reason == "refusal" else ""
    return finish, explanation or None


@dataclass(slots=True)
class _ToolBlock:
    """A tool's block while it is open."""

    call: writer.Call
    input: object
    """The arguments in the start event: empty, unless the upstream sends them in one piece."""
    decoder: InputDecoder | None
    """The decoder of a custom tool's input; None for a function."""


class ChunkWriter(writer.ChoiceWriter):
    """An `EventWriter` of chat chunks."""

    __slots__ = (
        "_block_start", "_citations", "_customs", "_ending", "_fragments", "_is_whole", "_place", "_thinking",
        "_tools",
    )  # fmt: skip

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._block_start = 0
        """Characters of content before the latest block of text."""
        self._citations: list[Json] = []
        """The citations of that block. They concern the whole block and may come before its text."""
        self._customs: frozenset[str] | None = None
        """The names of the caller's custom tools."""
        self._thinking: dict[int, tuple[Json, Place, dict[str, list[str]]]] = {}
        """The blocks of thinking that are open, their places, and the fragments of their texts."""
        self._is_whole = True
        """All blocks so far are of types that come back: see `_KEPT`."""
        self._place = Place(context.request_id)
        """The place after all text so far, except for `_fragments`."""
        self._fragments: list[str] = []
        self._ending: tuple[str, Json] = "", {}
        """The stop reason and its details."""
        self._tools: dict[int, _ToolBlock] = {}

    def write(self, event: Json) -> None:
        write = self._WRITERS.get(event["type"])
        if write is not None:
            index = event.get("index")
            write(self, event, index if isinstance(index, int) else -1)

    def maybe_extend(self, probed: Json, key: str) -> Callable[[str], None] | None:  # noqa: ARG002 - all blocks are written alike
        """See `EventWriter`. Only for text: fragments of thinking also have to be collected."""
        return partial(self._write_text, _TEXT_KEYS[key]) if key == "text" else None

    def _write_text(self, key: str, text: object) -> None:
        super()._write_text(key, text)
        if key == "content" and isinstance(text, str):
            self._fragments.append(text)
            if len(self._fragments) >= _AT_ONCE:
                self._move_place()

    def _move_place(self) -> Place:
        self._place = self._place.add("".join(self._fragments))
        self._fragments.clear()
        return self._place

    def flush(self) -> None:
        for index in list(self._tools):
            self._close_block({}, index)
        self._cite()

    def close(self, usage: ReplyUsage) -> None:
        """Write the last chunk of the choice, the refusal before it, and the usage chunk."""
        stop, details = self._ending
        called = self._count > 0
        finish, refusal = read_ending(stop, details, called=called, functions=self._functions)
        if refusal is not None:
            self._write({"refusal": refusal})
        self._write_end(finish, make_usage(usage, REASONING))

    def _open_block(self, event: Json, index: int) -> None:
        block = get_object(event, "content_block")
        # A block may begin at the index of one that was not stopped.
        self._close_block(event, index)
        kind = get_text(block, "type")
        if kind == "tool_use":
            self._open_call(index, block)
        elif kind in _TEXT_KEYS:
            self._block_start = self._content_chars
            self._citations = read_citations(block)
            self._write_text(_TEXT_KEYS[kind], block.get(kind))
        self._is_whole = self._is_whole and kind in _KEPT
        if kind in THINKING and self._is_whole:
            self._thinking[index] = (
                block,
                self._move_place()._replace(calls=self._count),
                {key: [get_text(block, key)] for key in _SIGNED},
            )

    def _open_call(self, index: int, block: Json) -> None:
        if self._customs is None:  # read late: most replies call nothing, and requests may be large
            self._customs = name_customs(self._context.request.body)
        is_custom = get_text(block, "name") in self._customs
        kind: ToolKind = "custom" if is_custom else "function"
        call = self._begin_call(block.get("id"), block.get("name"), kind)
        decoder = InputDecoder() if is_custom else None
        self._tools[index] = _ToolBlock(call, block.get("input"), decoder)

    def _add_delta(self, event: Json, index: int) -> None:
        """Write a fragment."""
        delta = get_object(event, "delta")
        kind, tool = get_text(delta, "type"), self._tools.get(index)
        if kind == "input_json_delta" and tool is not None:
            self._add_arguments(tool, get_text(delta, "partial_json"))
        elif kind in _FRAGMENTS:
            held = _FRAGMENTS[kind]
            self._write_text(_TEXT_KEYS[held], delta.get(held))
        elif kind == "citations_delta":
            self._citations += read_citations({"citations": [delta.get("citation")]})
        if index in self._thinking:
            for key, fragments in self._thinking[index][2].items():
                fragments.append(get_text(delta, key))

    def _close_block(self, _: Json, index: int) -> None:
        self._cite()
        if index in self._thinking:
            block, place, fragments_by_key = self._thinking.pop(index)
            texts = {key: "".join(fragments) for key, fragments in fragments_by_key.items()}
            if thinking := maybe_thinking(block | texts):
                self._note_state(note_place(thinking, place))
        if (tool := self._tools.pop(index, None)) is None:
            return
        if not tool.call.has_arguments:
            self._add_arguments(tool, dump_arguments(tool.input))
        if tool.decoder is not None:
            self._write_arguments(tool.call, tool.decoder.close())
        elif not tool.call.has_arguments:  # not counted as text: the model made none
            self._write_call(tool.call, {}, text=writer.NO_ARGUMENTS)

    def _cite(self) -> None:
        for citation in self._citations:
            annotation = cite(citation, self._block_start, self._content_chars)
            self._write_listed("annotations", annotation)
        self._citations = []

    def _note_stop(self, event: Json, _: int) -> None:
        delta, (stop, details) = get_object(event, "delta"), self._ending
        told = get_text(delta, "stop_reason"), get_object(delta, "stop_details")
        self._ending = told[0] or stop, told[1] or details

    def _add_arguments(self, tool: _ToolBlock, fragment: str) -> None:
        if fragment:
            tool.call.has_arguments = True  # also if there is nothing to decode in it yet
            text = fragment if tool.decoder is None else tool.decoder.feed(fragment)
            self._write_arguments(tool.call, text)

    _WRITERS: ClassVar[dict[str, Callable[[ChunkWriter, Json, int], None]]] = {
        "content_block_start": _open_block,
        "content_block_delta": _add_delta,
        "content_block_stop": _close_block,
        "message_delta": _note_stop,
    }
    """Keys are event types; other events mean nothing to a chat caller."""
