"""A response as a chat completion: its items, its ending and its usage.

Only the items count: some upstreams leave the shortcuts beside them (`output_text`) empty.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from gateway.dialects.chat.parts import make_annotation, maybe_source, move_source
from gateway.dialects.chat.usage import make_translated_usage
from gateway.dialects.chat.writer import (
    ARGUMENTS,
    NO_ARGUMENTS,
    ToolKind,
    carry_state,
    make_completion,
    make_message,
    uses_functions,
)
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.responses.history import maybe_reasoning
from gateway.dialects.responses.usage import read_items
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.seals import seal
from gateway.dialects.wire.upstream_errors import read_error
from gateway.errors import UpstreamError

SEPARATOR: Final = "\n\n"
"""The text between paragraphs: their words must not run together."""
_CALLS: Final[dict[str, ToolKind]] = {"function_call": "function", "custom_tool_call": "custom"}
"""The type of a chat tool by the type of the item that calls it."""
_SPEAKING: Final = ("message", "reasoning")
_PARTS: Final = {
    "output_text": ("content", "text"),
    "refusal": ("refusal", "refusal"),
    "summary_text": ("reasoning_content", "text"),
    "reasoning_text": ("reasoning_content", "text"),
}
"""The key of a chat message, and that of the part's text, by the type of a part."""


class Part(NamedTuple):
    """A text within an item."""

    key: str
    """Where it goes in a chat message."""
    place: tuple[str, int]
    """Where it stands in the item: the array and the index."""
    text: str
    sources: Sequence[Json] = ()
    """The pages that it is based on, with their places in it."""


def read_parts(item: Json) -> Iterator[Part]:
    """Read the texts of an item; what calls a tool, or was run by the upstream, has none."""
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
    return [source for one in given if (source := maybe_source(one))]


class Paragraphs:
    """Separates the messages of a reply, and the parts of its reasoning."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, Hashable] = {}

    def separate(self, part: Part, item: Hashable) -> str:
        """Return a fragment of a text, behind a blank line if it begins a paragraph."""
        if not part.text:
            return ""
        paragraph = (item, part.place) if part.key == "reasoning_content" else item
        last = self._last.setdefault(part.key, paragraph)
        self._last[part.key] = paragraph
        return part.text if last == paragraph else SEPARATOR + part.text


def translate_reply(reply: Json, context: ReplyContext, usage: Usage) -> Json:
    """Write a chat completion of what the upstream said."""
    functions = uses_functions(context.request.body)
    items, paragraphs = read_items(reply), Paragraphs()
    said = dict.fromkeys(("content", "refusal", "reasoning_content"), "")
    sources: list[Json] = []
    for number, item in enumerate(items):
        for part in read_parts(item):
            said[part.key] += paragraphs.separate(part, number)
            start = len(said[part.key]) - len(part.text)
            sources += (make_annotation(move_source(one, start)) for one in part.sources)
    calls = [_make_call(item, kind) for item in items if (kind := maybe_kind(item))]
    text, refusal, reasoning = said.values()
    images = [image for item in items if (image := maybe_image(item))]
    message = make_message(
        text, refusal, reasoning, calls, functions=functions, annotations=sources, images=images
    )
    tag = context.provider_tag
    if encrypted := [one for item in items if (one := maybe_reasoning(item, tag))]:
        carry_state(message, seal(encrypted, tag), context)
    finish = to_finish_reason(reply, called=bool(calls), functions=functions)
    return make_completion(message, finish, context, make_usage(usage))


def maybe_image(item: Json) -> Json | None:
    """Write the picture that an item brings; None for one that brings none."""
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
    return given or (NO_ARGUMENTS if kind == "function" else "")


def _make_call(item: Json, kind: ToolKind) -> Json:
    tool = {"name": item.get("name"), ARGUMENTS[kind]: read_arguments(item, kind)}
    return {"id": item.get("call_id"), "type": kind, kind: tool}


def to_finish_reason(reply: Json, *, called: bool, functions: bool) -> str:
    """Read how a reply ended. Raises UpstreamError for one that failed.

    `called`: the reply has tool calls; `functions`: the caller knows no tools.
    """
    match reply.get("status"):
        case "failed" | "cancelled":
            said = read_error(reply).message
            raise UpstreamError(said or "The upstream ended its reply with an error.")
        case "incomplete":
            reason = get_object(reply, "incomplete_details").get("reason")
            return "content_filter" if reason == "content_filter" else "length"
        case _:
            if not called:
                return "stop"
            return "function_call" if functions else "tool_calls"


def make_usage(usage: Usage) -> Json:
    """Write the usage object for the caller."""
    details = get_object(usage.reported or {}, "output_tokens_details")
    return make_translated_usage(usage, details.get("reasoning_tokens"))
