"""Chat content as messages blocks: pictures and documents."""

from __future__ import annotations

import base64
from typing import Any

from tests.dialects.chat_over_messages.kit import (
    check_request,
    refuse_part,
    text,
    tool,
    translate,
    translate_messages,
)
from tests.support.rows import each_row

PNG = base64.b64encode(b"\x89PNG picture").decode()
PDF = base64.b64encode(b"%PDF-1.7 text").decode()
NOTES = base64.b64encode("naïve".encode()).decode()
LINK = "https://example.com/a.pdf"

Json = dict[str, Any]


@each_row(
    ("url", "source"),
    [
        (f"data:image/png;base64,{PNG}", {"type": "base64", "media_type": "image/png", "data": PNG}),
        (f"DATA:Image/JPEG;base64,{PNG}", {"type": "base64", "media_type": "image/jpeg", "data": PNG}),
        (f"data:image/jpg;base64,{PNG}", {"type": "base64", "media_type": "image/jpeg", "data": PNG}),
        (f"data:image/gif;a=b;base64,{PNG}", {"type": "base64", "media_type": "image/gif", "data": PNG}),
        (f"data:image/webp;base64,{PNG}", {"type": "base64", "media_type": "image/webp", "data": PNG}),
        ("https://example.com/a.png", {"type": "url", "url": "https://example.com/a.png"}),
        ("HTTPS://example.com/a.svg", {"type": "url", "url": "HTTPS://example.com/a.svg"}),
    ],
)  # fmt: skip
def test_pictures(url: str, source: Json) -> None:
    part = {"type": "image_url", "image_url": {"url": url, "detail": "high"}}
    made = translate(messages=[{"role": "user", "content": [text("See"), part]}])
    check_request(made)
    assert made["messages"][0]["content"] == [text("See"), {"type": "image", "source": source}]
    assert translate_messages(tool("c", [part]))[0]["content"][0]["content"] == [
        {"type": "image", "source": source}
    ]


@each_row(
    "url",
    [
        "http://example.com/a.png",
        "ftp://example.com/a.png",
        "file:///etc/passwd",
        "data:image/svg+xml;base64,AAAA",
        "data:image/png,AAAA",
        "data:image/png;base64,",
        "data:;base64,AAAA",
        PNG,
    ],
)
def test_pictures_that_the_upstream_cannot_take_are_refused(url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    assert refuse_part(part) == "messages[0].content[0].image_url.url"


def test_documents() -> None:
    held = f"data:application/pdf;base64,{PDF}"
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    content = [
        {"type": "file", "file": {"file_data": held, "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": held, "file_id": None}},
        {"type": "file", "file": {"file_data": PDF}},
        {"type": "file", "file": {"file_data": LINK}},
        {"type": "file", "file": {"file_data": f"data:text/markdown;base64,{NOTES}"}},
    ]
    made = translate(messages=[{"role": "user", "content": content}])
    check_request(made)
    assert made["messages"][0]["content"] == [
        {"type": "document", "source": source, "title": "a.pdf"},
        {"type": "document", "source": source},
        {"type": "document", "source": source},
        {"type": "document", "source": {"type": "url", "url": LINK}},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "naïve"},
        },
    ]


@each_row(
    "data",
    [
        "http://example.com/a.pdf",
        "file:///etc/passwd",
        "data:text/plain;base64,AA",
        "data:text/plain;base64,/w==",
        "data:text/plain,a",
        f"data:application/zip;base64,{PNG}",
        PNG,
    ],
)
def test_documents_that_the_upstream_cannot_take_are_refused(data: str) -> None:
    part = {"type": "file", "file": {"file_data": data}}
    assert refuse_part(part) == "messages[0].content[0].file.file_data"
