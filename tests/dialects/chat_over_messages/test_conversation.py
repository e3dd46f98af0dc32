"""Chat messages as messages turns: long ones. `written.txt` has the mapping."""

from __future__ import annotations

import base64
from typing import Any

from tests.dialects.chat_over_messages.kit import check_request, text, tool, translate
from tests.support.rows import each_row

USER = {"role": "user", "content": "Hi"}
Json = dict[str, Any]


def call(identity: str = "c1", name: str = "f", arguments: str | None = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def result(identity: str = "c1", content: Any = None) -> Json:
    made = {"type": "tool_result", "tool_use_id": identity}
    return made if content is None else {**made, "content": content}


def calls(*made: Json) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(made)}


LATER = {"role": "system", "content": "later"}


@each_row(
    "messages",
    [
        [calls(call("c1"), call("c2")), LATER, tool("c1", "one"), tool("c2", "two")],
        [calls(call("c1"), call("c2")), tool("c1", "one"), LATER, tool("c2", "two")],
        [calls(call("c1"), call("c2")), tool("c1", "one"), tool("c2", "two"), LATER],
    ],
)
def test_an_instruction_does_not_part_a_call_from_its_results(messages: list[Json]) -> None:
    """Upstreams refuse a call whose results do not follow it."""
    made = translate(messages=[USER, *messages, USER])
    check_request(made)
    assert [(turn["role"], turn["content"]) for turn in made["messages"][2:]] == [
        ("user", [result("c1", "one"), result("c2", "two")]),
        ("system", [text("later")]),
        ("user", [text("Hi")]),
    ]


PDF = base64.b64encode(b"%PDF-1.7 text").decode()
NOTES = base64.b64encode("naïve".encode()).decode()
LINK = "https://example.com/a.pdf"


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
