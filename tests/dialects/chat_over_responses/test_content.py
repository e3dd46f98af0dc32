"""Chat content as Responses content: pictures, documents, and what an assistant said."""

from __future__ import annotations

from typing import Any

from tests.dialects.chat_over_responses.kit import call, refuse, translate_messages
from tests.support.rows import each_row

Json = dict[str, Any]

PDF = "data:application/pdf;base64,JVBERi0="
PNG = "data:image/png;base64,AAAA"
MARK = {"mode": "explicit", "ttl": "12h"}


def file(**held: Any) -> Json:
    return {"type": "file", "file": held}


def picture(url: str = PNG, **held: Any) -> Json:
    return {"type": "image_url", "image_url": {"url": url, **held}}


@each_row(
    ("part", "expected"),
    [
        ({"type": "text", "text": "Hi"}, {"type": "input_text", "text": "Hi"}),
        ({"type": "text", "text": ""}, {"type": "input_text", "text": ""}),
        ({"type": "text", "text": "Hi", "prompt_cache_breakpoint": MARK},
         {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": MARK}),
        (picture(), {"type": "input_image", "image_url": PNG, "detail": "auto"}),
        (picture("https://example.com/a.png", detail="high"),
         {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "high"}),
        (file(file_data=PDF, filename="a.pdf"),
         {"type": "input_file", "filename": "a.pdf", "file_data": PDF}),
        (file(file_data=PDF, file_id=None), {"type": "input_file", "file_data": PDF}),
        (file(file_data="HTTPS://example.com/a.pdf"),
         {"type": "input_file", "file_url": "HTTPS://example.com/a.pdf"}),
    ],
)  # fmt: skip
def test_parts_of_users_and_of_tools(part: Json, expected: Json) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = translate_messages(
        {"role": "user", "content": [part]},
        {"role": "assistant", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": [part]},
    )
    assert made == [
        {"type": "message", "role": "user", "content": [expected]},
        call(),
        {"type": "function_call_output", "call_id": "c1", "output": [expected]},
    ]


@each_row(
    ("part", "field"),
    [
        ({"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}, "type"),
        ({"type": "refusal", "refusal": "No."}, "type"),
        (picture(""), "image_url.url"),
        ({"type": "image_url", "image_url": PNG}, "image_url"),
        (file(filename="a.pdf"), "file.file_data"),
        ({"type": "file", "file": None}, "file"),
    ],
)
def test_parts_that_cannot_be_carried_over(part: Json, field: str) -> None:
    refused = refuse({"role": "user", "content": [part]})
    assert refused == f"messages[0].content[0].{field}"


def test_what_an_assistant_said() -> None:
    parts = [
        {"type": "text", "text": "Well:"},
        {"type": "text", "text": ""},
        {"type": "refusal", "refusal": "No."},
    ]
    user = {"role": "user", "content": "Hi"}
    made = translate_messages(user, {"role": "assistant", "content": parts})
    assert made[1]["content"] == [
        {"type": "output_text", "text": "Well:", "annotations": []},
        {"type": "refusal", "refusal": "No."},
    ]
    said = {"role": "assistant", "content": [picture()]}
    assert refuse(user, said) == "messages[1].content[0].type"
