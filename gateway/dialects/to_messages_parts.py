"""Chat content as messages blocks: text, pictures, documents (wire.md §5.1). No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from gateway.dialects.checks import Json, wrong_type
from gateway.dialects.to_messages_checks import (
    expect_list,
    expect_object,
    expect_text,
    unsupported_value,
)

TEXT_PARTS: Final = frozenset({"text"})
SPOKEN_PARTS: Final = frozenset({"text", "refusal"})
"""What an assistant message may hold."""
ALL_PARTS: Final = frozenset({"text", "image_url", "file"})
"""What a user message or a tool's result may hold."""

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.+)", re.IGNORECASE | re.DOTALL)
_MEDIA_TYPES: Final = {
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}
"""Of pictures that the upstream takes; `image/jpg` is a common slip."""
_PDF: Final = "application/pdf"


def to_blocks(where: str, content: Any, kinds: frozenset[str]) -> list[Json]:
    """A string or parts as blocks, blank text left out: the upstream refuses it."""
    if content is None:
        return []
    if isinstance(content, str):
        return make_text(content)
    blocks: list[Json] = []
    for index, item in enumerate(expect_list(where, content)):
        at = f"{where}[{index}]"
        part = expect_object(at, item)
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            raise unsupported_value(
                f"{at}.type", f"This model's provider takes here: {', '.join(sorted(kinds))}."
            )
        made = _READERS[kind](at, part)
        blocks += (copy_cache_mark(part, block) for block in made)
    return blocks


def make_text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text.strip() else []


def copy_cache_mark(source: Json, block: Json) -> Json:
    """`cache_control` is the upstream's own word, which chat callers may write on what they send."""
    mark = source.get("cache_control")
    return block if mark is None else {**block, "cache_control": mark}


def _read_text(where: str, part: Json) -> list[Json]:
    return _read_string(where, part, "text")


def _read_refusal(where: str, part: Json) -> list[Json]:
    return _read_string(where, part, "refusal")


def _read_string(where: str, part: Json, key: str) -> list[Json]:
    text = part.get(key)
    if not isinstance(text, str):
        raise wrong_type(f"{where}.{key}", "a string", text)
    return make_text(text)


def _read_image(where: str, part: Json) -> list[Json]:
    name = f"{where}.image_url"
    image = expect_object(name, part.get("image_url"))
    url = expect_text(f"{name}.url", image.get("url"))
    if url[:8].lower() == "https://":
        return [{"type": "image", "source": {"type": "url", "url": url}}]
    data = _DATA_URL.fullmatch(url)
    media_type = _MEDIA_TYPES.get(data[1].strip().lower()) if data else None
    if data is None or media_type is None:
        raise unsupported_value(
            f"{name}.url",
            "This model's provider takes https URLs, and data URLs with base64 of a JPEG, PNG, "
            "GIF or WebP picture.",
        )
    source = {"type": "base64", "media_type": media_type, "data": data[2]}
    return [{"type": "image", "source": source}]


def _read_file(where: str, part: Json) -> list[Json]:
    name = f"{where}.file"
    file = expect_object(name, part.get("file"))
    if file.get("file_id") is not None:
        raise unsupported_value(
            f"{name}.file_id", "Files uploaded elsewhere are unknown to this model's provider."
        )
    data = _DATA_URL.fullmatch(expect_text(f"{name}.file_data", file.get("file_data")))
    if data is None or data[1].strip().lower() != _PDF:
        raise unsupported_value(
            f"{name}.file_data", "This model's provider takes data URLs with base64 of a PDF."
        )
    source = {"type": "base64", "media_type": _PDF, "data": data[2]}
    block: Json = {"type": "document", "source": source}
    title = file.get("filename")
    return [{**block, "title": title} if isinstance(title, str) and title.strip() else block]


_READERS: Final[dict[str, Callable[[str, Json], list[Json]]]] = {
    "text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image,
    "file": _read_file,
}
