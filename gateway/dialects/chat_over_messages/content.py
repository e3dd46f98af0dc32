"""Chat content as messages blocks: text, pictures, documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.records import Json
from gateway.dialects.wire.fields import Field, is_link, maybe_read_text, split_data_url

TEXT_PARTS: Final = frozenset({"text"})
SPOKEN_PARTS: Final = frozenset({"text", "refusal"})
"""The parts that an assistant message may hold."""
ALL_PARTS: Final = frozenset({"text", "image_url", "file"})
"""The parts that a user message or a tool's result may hold."""

_MEDIA_TYPES: Final = {
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}
"""The pictures that the upstream takes; `image/jpg` is a common slip."""
_PDF: Final = "application/pdf"
_PDF_BEGIN: Final = "JVBERi"
"""The base64 of `%PDF`, by which a document without a media type is known."""


def translate_content(content: Field, kinds: frozenset[str]) -> list[Json]:
    """Write a string or parts as blocks, blank text left out: the upstream refuses it."""
    if content.value is None:
        return []
    if isinstance(content.value, str):
        return make_text(content.value)
    blocks: list[Json] = []
    for part in content.read_items():
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            raise part["type"].refuse(
                f"This model's provider takes here: {', '.join(sorted(kinds))}."
            )
        blocks += (copy_cache_mark(part, block) for block in _TRANSLATORS[kind](part))
    return blocks


def make_text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text.strip() else []


def copy_cache_mark(source: Field, block: Json) -> Json:
    """Copy `cache_control`: the upstream's own field, which chat callers may use as well."""
    mark = source.get("cache_control")
    return block if mark is None else {**block, "cache_control": mark}


def _translate_image(part: Field) -> list[Json]:
    field = part["image_url"]["url"]
    url = field.read_text()
    if is_link(url):
        return [{"type": "image", "source": {"type": "url", "url": url}}]
    told, data = split_data_url(url)
    media_type = _MEDIA_TYPES.get(told)
    if media_type is None:
        raise field.refuse(
            "This model's provider takes https URLs, and data URLs with base64 of a JPEG, PNG, "
            "GIF or WebP picture."
        )
    source = {"type": "base64", "media_type": media_type, "data": data}
    return [{"type": "image", "source": source}]


def _translate_file(part: Field) -> list[Json]:
    file = part["file"]
    if file.get("file_id") is not None:
        raise file["file_id"].refuse(
            "Files uploaded elsewhere are unknown to this model's provider."
        )
    source = _maybe_source(file["file_data"].read_text())
    if source is None:
        raise file["file_data"].refuse(
            "This model's provider takes https URLs, and data URLs with base64 of a PDF or a text."
        )
    block: Json = {"type": "document", "source": source}
    title = file.get("filename")
    return [{**block, "title": title} if isinstance(title, str) and title.strip() else block]


def _maybe_source(file: str) -> Json | None:
    if is_link(file):
        return {"type": "url", "url": file}
    if (text := maybe_read_text(file)) is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    media_type, data = (_PDF, file) if file.startswith(_PDF_BEGIN) else split_data_url(file)
    return {"type": "base64", "media_type": _PDF, "data": data} if media_type == _PDF else None


_TRANSLATORS: Final[dict[str, Callable[[Field], list[Json]]]] = {
    "text": lambda part: make_text(part["text"].read_string()),
    "refusal": lambda part: make_text(part["refusal"].read_string()),
    "image_url": _translate_image,
    "file": _translate_file,
}
