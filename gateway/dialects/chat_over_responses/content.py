"""Chat content as Responses content: text, pictures, documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.records import Json
from gateway.dialects.wire.fields import Field, is_link

TEXT_PARTS: Final = frozenset({"text"})
ALL_PARTS: Final = frozenset({"text", "image_url", "file"})
"""The parts that a user message or a tool's result may hold."""

CACHE_MARK: Final = "prompt_cache_breakpoint"
"""The field of a part that both dialects have."""


def translate_content(content: Field, kinds: frozenset[str]) -> list[Json]:
    """Write a string or parts as input parts."""
    if isinstance(content.value, str):
        return [{"type": "input_text", "text": content.value}]
    parts: list[Json] = []
    for part in content.read_items():
        made = _TRANSLATORS[_read_kind(part, kinds)](part)
        mark = part.get(CACHE_MARK)
        parts.append(made if mark is None else {**made, CACHE_MARK: mark})
    return parts


def translate_spoken(content: Field) -> list[Json]:
    """Write what an assistant said as output parts, empty text left out."""
    if content.value is None:
        return []
    if isinstance(content.value, str):
        return make_output_text(content.value)
    parts: list[Json] = []
    for part in content.read_items():
        kind = _read_kind(part, _SPOKEN_PARTS)
        make = make_output_text if kind == "text" else make_refusal
        parts += make(part[kind].read_string())
    return parts


def make_output_text(text: str) -> list[Json]:
    return [{"type": "output_text", "text": text, "annotations": []}] if text else []


def make_refusal(text: str) -> list[Json]:
    return [{"type": "refusal", "refusal": text}] if text else []


def _read_kind(part: Field, kinds: frozenset[str]) -> str:
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        raise part["type"].refuse(f"This model's provider takes here: {', '.join(sorted(kinds))}.")
    return kind


def _translate_text(part: Field) -> Json:
    return {"type": "input_text", "text": part["text"].read_string()}


def _translate_image(part: Field) -> Json:
    image = part["image_url"]
    detail = image.get("detail") or "auto"  # the schema requires one
    return {"type": "input_image", "image_url": image["url"].read_text(), "detail": detail}


def _translate_file(part: Field) -> Json:
    """Write a document by its link or by its content."""
    file = part["file"]
    data = file["file_data"].read_text()
    made = {"type": "input_file"}
    if isinstance(name := file.get("filename"), str):
        made["filename"] = name
    return {**made, "file_url" if is_link(data) else "file_data": data}


_SPOKEN_PARTS: Final = frozenset({"text", "refusal"})
_TRANSLATORS: Final[dict[str, Callable[[Field], Json]]] = {
    "text": _translate_text,
    "image_url": _translate_image,
    "file": _translate_file,
}
