"""Messages content as chat content: text, pictures, documents.

Pictures become data URLs, PDF documents file parts, text documents text. What only the vendor's own
servers can resolve (files, search results) is refused. `citations` are advice to the upstream and left
out, and so is `cache_control` where it takes none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.messages.caller import MessagesField
from gateway.dialects.records import Json
from gateway.dialects.wire.fields import is_link

DEFAULT_FILENAME: Final = "document.pdf"
"""The name of a document without a title: a chat upstream requires one."""


def translate_content(content: MessagesField, *, links: bool = False) -> list[Json]:
    """Write the parts of a string or an array of text, image and document blocks.

    With `links`, documents may be named by their address, which chat providers do not take.
    """
    if isinstance(content.value, str):
        return [_make_text(content.value)]
    return [part for block in content.read_items() for part in translate_block(block, links=links)]


def translate_block(block: MessagesField, *, links: bool) -> list[Json]:
    """Write the parts of one block: a document with a context is more than one."""
    kind = block["type"].read_string()
    if kind not in _TRANSLATORS:
        raise block.refuse_type("a content block", kind)
    if kind == "document":
        return _translate_document(block, links=links)
    return _TRANSLATORS[kind](block)


def read_texts(content: MessagesField) -> list[str]:
    """Read the strings of a content of text alone. Raises BadRequest for other blocks."""
    if isinstance(content.value, str):
        return [content.value]
    texts: list[str] = []
    for block in content.read_items():
        kind = block.get("type")
        if kind != "text":
            raise block.refuse_type("here a content block", kind)
        texts.append(block["text"].read_string())
    return texts


def _translate_text(block: MessagesField) -> list[Json]:
    return [_make_text(block["text"].read_string()) | block.mark]


def _translate_tool_reference(block: MessagesField) -> list[Json]:
    """Name a tool that a search found: all tools are sent in full, so its name says enough."""
    return [_make_text(f"[Tool found: {block['tool_name'].read_string()}]")]


def _translate_image(block: MessagesField) -> list[Json]:
    source = block["source"]
    match source.get("type"):
        case "base64":
            url = _make_data_url(source)
        case "url":
            url = source["url"].read_string()
        case kind:
            raise source.refuse_type("an image source", kind)
    return [{"type": "image_url", "image_url": {"url": url}, **block.mark}]


def _translate_document(block: MessagesField, *, links: bool = False) -> list[Json]:
    """Write a document, its title and context in front where the part has no place for them."""
    source = block["source"]
    source_type = source.get("type")
    title, context = _read_optional(block["title"]), _read_optional(block["context"])
    match source_type:
        case "base64":
            parts = [_translate_pdf(source, title)]
            title = ""
        case "url" if links and is_link(source["url"].read_string()):
            parts = [_make_file(title, source["url"].value)]
            title = ""
        case "text":
            parts = [_make_text(source["data"].read_string())]
        case "content":
            parts = translate_content(source["content"])
        case kind:
            raise source.refuse_type("a document source", kind)
    about = "\n".join(filter(None, (title, context)))
    return [_make_text(about), *parts] if about else parts


def _read_optional(field: MessagesField) -> str:
    return "" if field.value is None else field.read_string()


def _translate_pdf(source: MessagesField, title: str) -> Json:
    if source.get("media_type") != "application/pdf":
        raise source["media_type"].refuse_field("a document that is neither text nor PDF")
    return _make_file(title or DEFAULT_FILENAME, _make_data_url(source))


def _make_file(name: str, data: str) -> Json:
    file = {"filename": name} if name else {}
    return {"type": "file", "file": {**file, "file_data": data}}


def _make_data_url(source: MessagesField) -> str:
    media_type, data = source["media_type"].read_string(), source["data"].read_string()
    return f"data:{media_type};base64,{data}"


def _make_text(text: str) -> Json:
    return {"type": "text", "text": text}


_TRANSLATORS: Final[dict[str, Callable[[MessagesField], list[Json]]]] = {
    "text": _translate_text,
    "image": _translate_image,
    "document": _translate_document,
    "tool_reference": _translate_tool_reference,
}
