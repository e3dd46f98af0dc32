"""Parts of reasoning and message items, and the names of the events that write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from gateway.dialects.records import Json

PartKind = Literal["reasoning", "text", "refusal"]


def make_part(kind: PartKind, text: str, sources: Iterable[Json] = ()) -> Json:
    if kind == "text":
        return {"type": "output_text", "text": text, "annotations": [*sources], "logprobs": []}
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "summary_text", "text": text}


@dataclass(frozen=True, slots=True)
class Form:
    """The names of the events of one kind of part."""

    prefix: str
    """The prefix of the item's id, which tells the kinds of items apart."""
    index: str
    added: str
    part_done: str
    text: str
    """The events of the text, without `.delta` and `.done`."""
    key: str
    extra: Json


_TEXT: Final = Form(
    "msg",
    "content_index",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text",
    "text",
    {"logprobs": []},
)
_REFUSAL: Final = Form(
    "msg", "content_index", _TEXT.added, _TEXT.part_done, "response.refusal", "refusal", {}
)
_REASONING: Final = Form(
    "rs",
    "summary_index",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "response.reasoning_summary_text",
    "text",
    {},
)
FORMS: Final[dict[PartKind, Form]] = {
    "reasoning": _REASONING,
    "refusal": _REFUSAL,
    "text": _TEXT,
}
