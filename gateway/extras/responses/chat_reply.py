"""A response as a chat completion: its items, its ending and its usage.

Only the items count: some upstreams leave shortcuts such as `output_text` empty.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from gateway.base.errors import UpstreamError
from gateway.dialects.chat import writer
from gateway.dialects.chat.tools import ARGUMENTS, ToolKind
from gateway.dialects.translate.pivot import make_usage
from gateway.dialects.wire.call_ids import ReplyIds
from gateway.dialects.wire.failures import read_error
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.seals import seal
from gateway.extras.responses.history import maybe_phase, maybe_reasoning
from gateway.extras.responses.stream import read_items

_CALLS: Final[dict[str, ToolKind]] = {"function_call": "function", "custom_tool_call": "custom"}
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


class Part(NamedTuple):
    """A text within an item."""

    key: str
    """The member of a chat message that the text goes to."""
    place: tuple[str, int]
    """Its place in the item: the array's name and the index."""
    text: str
    sources: Sequence[Json] = ()
    """The pages that the text is based on, with their places in it."""


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
    """Separates the messages of a reply, and the parts of its reasoning, by blank lines."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, Hashable] = {}

    def separate(self, part: Part, item: Hashable) -> str:
        """Return a fragment of a text, with a blank line before it if it begins a paragraph."""
        if not part.text:
            return ""
        paragraph = (item, part.place) if part.key == "reasoning_content" else item
        last = self._last.setdefault(part.key, paragraph)
        self._last[part.key] = paragraph
        return part.text if last == paragraph else writer.BLOCK_SEPARATOR + part.text


def translate_reply(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
    """Write a chat completion from a response."""
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


def maybe_kind(item: Json) -> ToolKind | None:
    """Return the type of the tool that an item calls; None for an item that calls none."""
    return _CALLS.get(get_text(item, "type"))


def read_arguments(item: Json, kind: ToolKind) -> str:
    """Read the arguments of a call; a function without any gets an empty object."""
    given = get_text(item, ARGUMENTS[kind])
    return given or (writer.NO_ARGUMENTS if kind == "function" else "")


def _make_call(item: Json, kind: ToolKind, ids: ReplyIds) -> Json:
    tool = {"name": item.get("name"), ARGUMENTS[kind]: read_arguments(item, kind)}
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
