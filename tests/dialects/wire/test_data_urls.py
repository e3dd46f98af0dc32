"""Data URLs, and the texts in them."""

from __future__ import annotations

from gateway.dialects.wire.fields import maybe_read_text, split_data_url
from tests.support.rows import each_row


@each_row(
    ("url", "parts"),
    [
        ("data:text/plain;base64,aGk=", ("text/plain", "aGk=")),
        ("DATA: Text/Plain ;charset=utf-8;BASE64,aGk=", ("text/plain", "aGk=")),
        ("data:;base64,aGk=", ("", "aGk=")),
        ("data:text/plain,hi", ("", "")),
        ("https://example.com", ("", "")),
        ("aGk=", ("", "")),
    ],
)
def test_the_parts_of_a_data_url(url: str, parts: tuple[str, str]) -> None:
    assert split_data_url(url) == parts


@each_row(
    ("url", "text"),
    [
        ("data:text/plain;base64,aGk=", "hi"),
        ("data:text/csv;base64,w6k=", "é"),
        ("data:text/plain;base64,w6k", None),
        ("data:text/plain;base64,/w==", None),
        ("data:application/pdf;base64,aGk=", None),
        ("aGk=", None),
    ],
)
def test_texts(url: str, text: str | None) -> None:
    assert maybe_read_text(url) == text
