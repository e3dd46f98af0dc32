"""Messages content as chat content: text, pictures and documents."""

from __future__ import annotations

from typing import Any

from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.requests import (
    CACHED,
    PDF,
    PDF_URL,
    PNG,
    PNG_PART,
    text,
    user,
    write_messages,
)
from tests.support.rows import each_row


@each_row(
    ("block", "parts"),
    [
        (text("a", citations=None, **CACHED), "a"),
        ({"type": "image", "source": PNG, **CACHED}, [PNG_PART]),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
         [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]),
        ({"type": "document", "source": PDF, "citations": {"enabled": True}},
         [{"type": "file", "file": {"filename": "document.pdf", "file_data": PDF_URL}}]),
        ({"type": "document", "source": PDF, "title": "a.pdf", "context": "draft"},
         [text("draft"), {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}}]),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}, "d"),
        ({"type": "document", "title": "T", "context": "C",
          "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
         [text("T\nC"), text("d")]),
        ({"type": "document",
          "source": {"type": "content", "content": [text("d"), {"type": "image", "source": PNG}]}},
         [text("d"), PNG_PART]),
        ({"type": "document", "source": {"type": "content", "content": "d"}}, "d"),
    ],
)  # fmt: skip
def test_user_blocks(block: Json, parts: Any) -> None:
    assert write_messages(user(block)) == [{"role": "user", "content": parts}]


def test_several_user_blocks_keep_their_order() -> None:
    written = write_messages(user(text("a"), {"type": "image", "source": PNG}, text("b")))
    assert written == [{"role": "user", "content": [text("a"), PNG_PART, text("b")]}]
