"""Content blocks of a messages request as content parts of a chat request. No I/O.

wire.md §5.2: pictures become data URLs, PDF documents file parts, text documents text. What only
the vendor's own servers can resolve (files, search results) is refused. `cache_control` and
`citations` are advice to the upstream and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.dialects.to_chat_fields import (
    Json,
    cannot_carry,
    name_type,
    read_list,
    read_object,
    read_optional_text,
    read_text,
)

BLOCK_SEPARATOR: Final = "\n\n"
"""Between text blocks that become one string: they were apart, and words must not run together."""

DEFAULT_FILENAME: Final = "document.pdf"
"""A chat upstream wants a name for each file; a document without a title has none."""


def read_parts(where: str, content: Any) -> list[Json]:
    """The parts of a content that is a string or an array of text, image and document blocks."""
    if isinstance(content, str):
        return [_make_text(content)]
    parts: list[Json] = []
    for index, block in enumerate(read_list(where, content)):
        parts += read_part(f"{where}.{index}", block)
    return parts


def read_part(where: str, block: Any) -> list[Json]:
    """The parts of one block: a document with a context is more than one."""
    kind = read_text(f"{where}.type", read_object(where, block).get("type"))
    if kind not in _BLOCKS:
        raise cannot_carry(where, name_type("a content block", kind))
    return _BLOCKS[kind](where, block)


def read_joined_text(where: str, content: Any) -> str:
    """A content of text alone as one string. Raises BadRequest for other blocks."""
    return BLOCK_SEPARATOR.join(read_texts(where, content))


def read_texts(where: str, content: Any) -> list[str]:
    """The strings of a content of text alone. Raises BadRequest for other blocks."""
    texts: list[str] = []
    if isinstance(content, str):
        return [content]
    for index, block in enumerate(read_list(where, content)):
        at = f"{where}.{index}"
        kind = read_object(at, block).get("type")
        if kind != "text":
            raise cannot_carry(at, name_type("here a content block", kind))
        texts.append(read_text(f"{at}.text", block.get("text")))
    return texts


def _read_text_block(where: str, block: Json) -> list[Json]:
    return [_make_text(read_text(f"{where}.text", block.get("text")))]


def _read_tool_reference(where: str, block: Json) -> list[Json]:
    """A tool that a search found: all tools are sent in full, so its name says enough."""
    name = read_text(f"{where}.tool_name", block.get("tool_name"))
    return [_make_text(f"[Tool found: {name}]")]


def _read_image(where: str, block: Json) -> list[Json]:
    at = f"{where}.source"
    source = read_object(at, block.get("source"))
    match source.get("type"):
        case "base64":
            url = _make_data_url(at, source)
        case "url":
            url = read_text(f"{at}.url", source.get("url"))
        case kind:
            raise cannot_carry(at, name_type("an image source", kind))
    return [{"type": "image_url", "image_url": {"url": url}}]


def _read_document(where: str, block: Json) -> list[Json]:
    """The document, its title and context in front where the part has no place for them."""
    at = f"{where}.source"
    source = read_object(at, block.get("source"))
    title = read_optional_text(f"{where}.title", block.get("title"))
    context = read_optional_text(f"{where}.context", block.get("context"))
    match source.get("type"):
        case "base64":
            parts = [_read_pdf(at, source, title)]
            title = ""
        case "text":
            parts = [_make_text(read_text(f"{at}.data", source.get("data")))]
        case "content":
            parts = read_parts(f"{at}.content", source.get("content"))
        case kind:
            raise cannot_carry(at, name_type("a document source", kind))
    about = "\n".join(filter(None, (title, context)))
    return [_make_text(about), *parts] if about else parts


def _read_pdf(where: str, source: Json, title: str) -> Json:
    if source.get("media_type") != "application/pdf":
        raise cannot_carry(f"{where}.media_type", "a document that is neither text nor PDF")
    data_url = _make_data_url(where, source)
    return {"type": "file", "file": {"filename": title or DEFAULT_FILENAME, "file_data": data_url}}


def _make_data_url(where: str, source: Json) -> str:
    media_type = read_text(f"{where}.media_type", source.get("media_type"))
    data = read_text(f"{where}.data", source.get("data"))
    return f"data:{media_type};base64,{data}"


def _make_text(text: str) -> Json:
    return {"type": "text", "text": text}


_BLOCKS: Final[dict[str, Callable[[str, Json], list[Json]]]] = {
    "text": _read_text_block,
    "image": _read_image,
    "document": _read_document,
    "tool_reference": _read_tool_reference,
}
