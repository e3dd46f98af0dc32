"""Responses content as chat content: texts, pictures, documents, recordings."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.requests import (
    PNG,
    PNG_PART,
    PNG_URL,
    message,
    text,
    user,
    write_messages,
)
from tests.support.rows import each_row

PDF_URL = "data:application/pdf;base64,JVBE"
PDF: Json = {"type": "input_file", "file_data": PDF_URL, "filename": "a.pdf"}
PDF_PART: Json = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}}
AUDIO: Json = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}


def without(part: Json, key: str) -> Json:
    return {name: value for name, value in part.items() if name != key}


@each_row(
    ("part", "expected"),
    [
        (PNG, PNG_PART),
        ({**PNG, "detail": "original"}, {**PNG_PART, "image_url": {"url": PNG_URL}}),
        (without(PNG, "detail"), {**PNG_PART, "image_url": {"url": PNG_URL}}),
        (PDF, PDF_PART),
        (without(PDF, "filename"),
         {"type": "file", "file": {"filename": "document.pdf", "file_data": PDF_URL}}),
        (AUDIO, AUDIO),
    ],
)  # fmt: skip
def test_files(part: Json, expected: Json) -> None:
    said = [{"type": "text", "text": "see"}, expected]
    assert write_messages(message("user", [text("see"), part])) == [user(said)]
    assert write_messages(message("user", [part])) == [user([expected])]


def test_texts_in_files_are_texts() -> None:
    file = {"type": "input_file", "file_data": "data:text/plain;base64,aGk="}
    assert write_messages(message("user", [file])) == [user("hi")]
    assert write_messages(message("user", [{**file, "filename": "a"}])) == [user("a\nhi")]


def test_texts() -> None:
    both = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert write_messages(message("user", [text("a"), text("b", "text")])) == [user(both)]
    assert write_messages(message("user", [text("a")])) == [user("a")]
    assert write_messages(message("user", [])) == [user("")]


@each_row(
    ("part", "param"),
    [
        ({"type": "input_image", "file_id": "file-1"}, "file_id"),
        ({"type": "input_file", "file_id": "file-1"}, "file_id"),
        ({"type": "input_file", "file_url": "https://a/b.pdf"}, "file_url"),
        ({"type": "input_file", "filename": "a.pdf"}, "file_data"),
        ({"type": "input_file", "filename": 7, "file_data": PDF_URL}, "filename"),
        ({"type": "input_image"}, "image_url"),
        ({"type": "input_audio"}, "input_audio"),
        ({"type": "computer_screenshot"}, "type"),
        ({"type": "input_text", "text": 7}, "text"),
        ({"type": None}, "type"),
    ],
)
def test_what_chat_cannot_hold_is_refused_by_name(part: Json, param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        write_messages(message("user", [part]))
    assert refused.value.param == f"input[0].content[0].{param}"
