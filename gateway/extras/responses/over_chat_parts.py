"""The content of Responses items is written as the parts of chat messages."""

from __future__ import annotations

from typing import Final

from gateway.dialects.translate.earlier import tell
from gateway.dialects.translate.pivot import DEFAULT_FILENAME, make_file, make_text
from gateway.dialects.wire.fields import Field, is_link, maybe_read_text
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.seals import ANY_TAG

DETAILS: Final = ("auto", "high", "low")
"""Chat's values for how closely a model looks at a picture. Responses also has `original`."""
SEALS: Final = (ANY_TAG, "gAAAA")
"""The beginnings of sealed content: a tag of this gateway, and OpenAI's own."""
_TEXT_KEYS: Final = {
    **dict.fromkeys(("input_text", "output_text", "text"), "text"),
    "encrypted_content": "encrypted_content",
    "refusal": "refusal",
}
"""The key of the text, by the type of part. An earlier refusal counts as text."""


def read_texts(content: Field) -> list[str]:
    """Read the strings of a content of text alone. Raises BadRequest for other parts."""
    if isinstance(content.value, str):
        return [content.value]
    return [_read_text(part) for part in content.read_items()]


def read_spoken(content: Field) -> list[str]:
    """Read the strings of an earlier reply. Parts that only its vendor knows become text."""
    if isinstance(content.value, str):
        return [content.value]
    return [
        part[_TEXT_KEYS[kind]].read_string()
        if (kind := part["type"].read_text()) in _TEXT_KEYS
        else tell(kind, part.value)
        for part in content.read_items()
    ]


def _read_text(part: Field) -> str:
    kind = part["type"].read_text()
    if kind not in _TEXT_KEYS:
        raise part["type"].refuse("This model's provider takes here text alone.")
    return part[_TEXT_KEYS[kind]].read_string()


def translate_part(part: Field, *, is_pivot: bool) -> Json:
    kind = part["type"].read_text()
    if kind in _TEXT_KEYS:
        return make_text(part[_TEXT_KEYS[kind]].read_string())
    match kind:
        case "input_audio":
            return {"type": "input_audio", "input_audio": part["input_audio"].read_object()}
        case "input_file":
            return _translate_file(part, is_pivot=is_pivot)
        case "input_image":
            return _translate_image(part)
        case _:
            known = sorted({*_TEXT_KEYS, "input_audio", "input_file", "input_image"})
            raise part["type"].refuse(f"This model's provider takes {', '.join(known)}.")


def is_sealed(part: Field) -> bool:
    """Return whether a part can be read only by whoever sealed it.

    Coding agents put messages to each other into `encrypted_content` even if nobody sealed them.
    """
    given = part.get("encrypted_content")
    return isinstance(given, str) and given.startswith(SEALS)


def _translate_image(part: Field) -> Json:
    _refuse_file_id(part)
    image = {"url": part["image_url"].read_text()}
    if (detail := part.get("detail")) in DETAILS:
        image["detail"] = detail
    return {"type": "image_url", "image_url": image}


def _translate_file(part: Field, *, is_pivot: bool) -> Json:
    """Write a document. Chat providers take only its content, and no link. Text documents become text."""
    _refuse_file_id(part)
    name = part["filename"].read_string() if part.get("filename") else ""
    if (link := part["file_url"]).value is not None:
        if not (is_pivot and is_link(link.read_string())):
            raise link.refuse_field()
        data = link.value
    else:
        data = part["file_data"].read_text()
    if is_pivot:
        return make_file(name, data)
    if (text := maybe_read_text(data)) is not None:
        return make_text(f"{name}\n{text}" if name else text)
    return make_file(name or DEFAULT_FILENAME, data)


def _refuse_file_id(part: Field) -> None:
    if part.get("file_id") is not None:
        raise part["file_id"].refuse_field()
