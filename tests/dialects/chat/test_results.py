"""Results of tools as chat messages: text alone, files behind."""

from __future__ import annotations

from gateway.dialects.chat.parts import FILES_NOTE, make_result, pack_parts
from tests.dialects.chat.kit import Json

PICTURE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}


def part(said: str) -> Json:
    return {"type": "text", "text": said}


def test_texts_are_joined() -> None:
    result, files = make_result("c1", [part("a"), part("b")], "Error: ")
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "Error: a\n\nb"}
    assert files == []


def test_files_stand_behind_and_name_their_call() -> None:
    result, files = make_result("c1", [part("a"), PICTURE])
    assert result["content"] == f"a\n\n{FILES_NOTE}"
    assert files == [part("[From the result of tool call c1:]"), PICTURE]


def test_a_lone_text_is_a_plain_string() -> None:
    assert pack_parts([]) == ""
    assert pack_parts([part("a")]) == "a"
    assert pack_parts([PICTURE]) == [PICTURE]
    assert pack_parts([part("a"), part("b")]) == [part("a"), part("b")]
