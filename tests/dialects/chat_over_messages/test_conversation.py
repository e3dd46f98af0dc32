"""Chat messages as messages turns: roles, parts, calls, results and files; random ones lose nothing."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from tests.dialects.chat_over_messages.kit import (
    TARGET,
    check_request,
    text,
    tool,
    translate,
    translate_messages,
)
from tests.support.rows import each_row

USER = {"role": "user", "content": "Hi"}
Json = dict[str, Any]


def call(identity: str = "c1", name: str = "f", arguments: str | None = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def use(identity: str = "c1", name: str = "f", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def result(identity: str = "c1", content: Any = None) -> Json:
    made = {"type": "tool_result", "tool_use_id": identity}
    return made if content is None else {**made, "content": content}


def calls(*made: Json) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(made)}


@each_row(
    ("messages", "turns"),
    [
        ([USER], [("user", [text("Hi")])]),
        ([{"role": "user", "content": [text("a"), text(" "), text("b")]}],
         [("user", [text("a"), text("b")])]),
        ([{"role": "user", "content": ""}, USER], [("user", [text("Hi")])]),
        ([{"role": "user", "content": "Hi", "name": "Ann"}], [("user", [text("Hi")])]),
        ([USER, USER], [("user", [text("Hi")]), ("user", [text("Hi")])]),
        ([USER, {"role": "assistant", "content": "It is"}],
         [("user", [text("Hi")]), ("assistant", [text("It is")])]),
        ([USER, {"role": "assistant", "content": "a", "reasoning_content": "hm", "annotations": []},
          {"role": "assistant", "content": None, "refusal": "No."},
          {"role": "assistant", "content": [{"type": "refusal", "refusal": "Never."}]},
          {"role": "assistant", "content": None, "audio": None, "function_call": None}],
         [("user", [text("Hi")]), ("assistant", [text("a")]), ("assistant", [text("No.")]),
          ("assistant", [text("Never.")])]),
        ([USER, {"role": "system", "content": "b"}, {"role": "developer", "content": [text("c")]}],
         [("user", [text("Hi")]), ("system", [text("b")]), ("system", [text("c")])]),
        ([{**calls(call("c1", "f", '{"a": [1, null]}'), call("c2", "g", "")), "content": "So:"}],
         [("assistant", [text("So:"), use("c1", "f", a=[1, None]), use("c2", "g")])]),
        ([calls(call(arguments=None))], [("assistant", [use()])]),
        ([calls(call("functions.f:0"))], [("assistant", [use("functions_2ef_3a0")])]),
        ([calls(call("c1"), call("c2")), tool("c1", "one"), tool("c2", [text("two")]), USER],
         [("assistant", [use("c1"), use("c2")]),
          ("user", [result("c1", "one"), result("c2", [text("two")]), text("Hi")])]),
        ([tool("c1", "one"), USER, tool("c2", "two"), {"role": "system", "content": "s"}, USER],
         [("user", [result("c1", "one"), result("c2", "two"), text("Hi")]), ("system", [text("s")]),
          ("user", [text("Hi")])]),
        ([tool("c1", ""), tool("c2", [text(" ")])], [("user", [result("c1"), result("c2")])]),
        ([{"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
          {"role": "function", "name": "f", "content": "one"},
          {"role": "assistant", "content": None, "function_call": {"name": "f"}},
          {"role": "function", "name": "f", "content": None}],
         [("assistant", [use("function_0", a=1)]), ("user", [result("function_0", "one")]),
          ("assistant", [use("function_1")]), ("user", [result("function_1")])]),
    ],
)  # fmt: skip
def test_turns(messages: list[Json], turns: list[tuple[str, list[Json]]]) -> None:
    made = translate(messages=messages)
    check_request(made)
    assert [(turn["role"], turn["content"]) for turn in made["messages"]] == turns


def test_leading_instructions_are_the_system_in_order() -> None:
    """Only leading ones: hoisting later ones would change their meaning."""
    made = translate(
        messages=[
            {"role": "system", "content": "a"},
            {"role": "developer", "content": [text("b"), text("")]},
            {"role": "system", "content": [{**text("c"), "cache_control": {"type": "ephemeral"}}]},
            USER,
            {"role": "system", "content": "d"},
        ]
    )
    check_request(made)
    marked = {**text("c"), "cache_control": {"type": "ephemeral"}}
    assert made["system"] == [text("a"), text("b"), marked]
    assert [turn["role"] for turn in made["messages"]] == ["user", "system"]


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


@each_row("after", [[USER], [{"role": "assistant", "content": "Hi"}], []])
def test_an_instruction_behind_a_call_without_result_is_kept(after: list[Json]) -> None:
    turns = translate(messages=[calls(call()), LATER, *after])["messages"]
    assert [turn["role"] for turn in turns] == [
        "assistant", "system", *(message["role"] for message in after),
    ]  # fmt: skip


def test_all_instructions_are_the_system_where_the_provider_takes_no_others() -> None:
    made = translate(
        replace(TARGET, leading_system=True),
        messages=[{"role": "system", "content": "a"}, USER, calls(call()), LATER, tool("c1", "b")],
    )
    assert made["system"] == [text("a"), text("later")]
    assert [turn["role"] for turn in made["messages"]] == ["user", "assistant", "user"]


def test_blank_instructions_are_no_system() -> None:
    assert "system" not in translate(messages=[{"role": "system", "content": " "}, USER])


PNG = base64.b64encode(b"\x89PNG picture").decode()
PDF = base64.b64encode(b"%PDF-1.7 text").decode()
NOTES = base64.b64encode("naïve".encode()).decode()
LINK = "https://example.com/a.pdf"


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
