"""Responses content as chat content: text, pictures, documents, recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.records import Json
from gateway.dialects.wire.fields import Field, is_link, maybe_read_text
from gateway.dialects.wire.seals import ANY_TAG

DEFAULT_FILENAME: Final = "document.pdf"
"""The name of a document without one: a chat upstream requires it."""
DETAILS: Final = ("auto", "high", "low")
"""How closely a model looks at a picture. Responses has `original` too, which chat has not."""
SEALS: Final = (ANY_TAG, "gAAAA")
"""The beginnings of sealed content: a tag of this gateway, and OpenAI's own."""


def translate_content(content: Field, *, is_pivot: bool) -> list[Json]:
    """Write the parts of a string or an array of parts; see `Target` for `is_pivot`."""
    if isinstance(content.value, str):
        return [_make_text(content.value)]
    parts = (part for part in content.read_items() if not _is_sealed(part))
    return [_translate_part(part, is_pivot=is_pivot) for part in parts]


def read_texts(content: Field) -> list[str]:
    """Read the strings of a content of text alone. Raises BadRequest for other parts."""
    if isinstance(content.value, str):
        return [content.value]
    return [_read_text(part) for part in content.read_items()]


def _read_text(part: Field) -> str:
    """Read a part of text. An earlier refusal is what the assistant said, like any other text."""
    kind = part["type"].read_text()
    if kind not in _TEXT_KEYS:
        raise part["type"].refuse("This model's provider takes here text alone.")
    return part[_TEXT_KEYS[kind]].read_string()


def _translate_part(part: Field, *, is_pivot: bool) -> Json:
    kind = part["type"].read_text()
    if kind in _TEXT_KEYS:
        return _make_text(part[_TEXT_KEYS[kind]].read_string())
    if kind not in _TRANSLATORS:
        raise part["type"].refuse(
            f"This model's provider takes {', '.join(sorted({*_TEXT_KEYS, *_TRANSLATORS}))}."
        )
    if kind == "input_file":
        return _translate_file(part, is_pivot=is_pivot)
    return _TRANSLATORS[kind](part)


def _is_sealed(part: Field) -> bool:
    """Return whether a part is for those alone who sealed it.

    Coding agents call what one of them says to another sealed even where nobody sealed it.
    """
    given = part.get("encrypted_content")
    return isinstance(given, str) and given.startswith(SEALS)


def _translate_image(part: Field) -> Json:
    _refuse_file_id(part)
    image = {"url": part["image_url"].read_text()}
    if (detail := part.get("detail")) in DETAILS:
        image["detail"] = detail
    return {"type": "image_url", "image_url": image}


def _translate_file(part: Field, *, is_pivot: bool = False) -> Json:
    """Write a document. Chat providers take its content alone, no link to it, and texts as text."""
    _refuse_file_id(part)
    name = part["filename"].read_string() if part.get("filename") else ""
    if (link := part["file_url"]).value is not None:
        if not (is_pivot and is_link(link.read_string())):
            raise link.refuse_field()
        data = link.value
    else:
        data = part["file_data"].read_text()
    if is_pivot:
        file = {"filename": name} if name else {}
        return {"type": "file", "file": {**file, "file_data": data}}
    if (text := maybe_read_text(data)) is not None:
        return _make_text(f"{name}\n{text}" if name else text)
    return {"type": "file", "file": {"filename": name or DEFAULT_FILENAME, "file_data": data}}


def _refuse_file_id(part: Field) -> None:
    if part.get("file_id") is not None:
        raise part["file_id"].refuse_field()


def _translate_audio(part: Field) -> Json:
    return {"type": "input_audio", "input_audio": part["input_audio"].read_object()}


def _make_text(text: str) -> Json:
    return {"type": "text", "text": text}


_TEXT_KEYS: Final = {
    "encrypted_content": "encrypted_content",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "text": "text",
}
"""The key of the text by the type of part."""

_TRANSLATORS: Final[dict[str, Callable[[Field], Json]]] = {
    "input_audio": _translate_audio,
    "input_file": _translate_file,
    "input_image": _translate_image,
}
