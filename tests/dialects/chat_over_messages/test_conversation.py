"""Chat messages as messages turns: roles, parts, calls, results and files; random ones lose nothing."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.chat_over_messages.kit import (
    TARGET,
    check_request,
    refuse,
    refuse_part,
    text,
    tool,
    translate,
    translate_messages,
)
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

USER = {"role": "user", "content": "Hi"}
Json = dict[str, Any]
DEEP = '{"a":' * 300 + "{}" + "}" * 300


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


@each_row(
    ("messages", "field"),
    [
        ([calls({**call(), "type": "custom"})], "messages[0].tool_calls[0].type"),
        ([{"role": "system", "content": "a"}], "messages"),
        ([{"role": "user", "content": " "}], "messages"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(messages: list[Json], field: str) -> None:
    assert refuse(*messages) == field


@each_row(
    ("arguments", "given"),
    [
        ('{"a": 1', {"arguments": '{"a": 1'}),
        ("swordfish", {"arguments": "swordfish"}),
        ("[1]", {"arguments": [1]}),
        ('"a"', {"arguments": "a"}),
        ('{"a": NaN}', {"a": None}),
        (DEEP, {"arguments": DEEP}),
    ],
)
def test_arguments_that_are_no_object_are_put_into_one(arguments: str, given: Json) -> None:
    """A model wrote them: refused, they would end the conversation for good."""
    assert translate_messages(calls(call(arguments=arguments)))[0]["content"] == [
        {"type": "tool_use", "id": "c1", "name": "f", "input": given}
    ]


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


Said = tuple[str, ...]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
arguments = st.dictionaries(
    texts, st.integers(-(2**53), 2**53) | texts | st.lists(texts), max_size=3
)
pictures = st.sampled_from(["https://example.com/a.png", "data:image/png;base64,AAAA"])
text_parts = st.builds(lambda text: {"type": "text", "text": text}, texts)
picture_parts = st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, pictures)
content = texts | st.lists(text_parts, min_size=1, max_size=3)
rich_content = content | st.lists(text_parts | picture_parts, min_size=1, max_size=4)


@st.composite
def spoken(draw: st.DrawFn) -> list[Json]:
    role = draw(st.sampled_from(["system", "developer", "user", "assistant"]))
    said = draw(rich_content if role == "user" else content)
    return [{"role": role, "content": said}]


@st.composite
def called(draw: st.DrawFn) -> list[Json]:
    """Make an assistant's calls and their results, in any order."""
    ids = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    calls = [
        {
            "id": identity,
            "type": "function",
            "function": {"name": draw(names), "arguments": json.dumps(draw(arguments))},
        }
        for identity in ids
    ]
    results = [
        {"role": "tool", "tool_call_id": identity, "content": draw(content)}
        for identity in draw(st.permutations(ids))
    ]
    said = draw(st.none() | content)
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


conversations = st.builds(
    lambda parts: [message for part in parts for message in part],
    st.lists(spoken() | called(), max_size=6),
)
ROLES: dict[str, str] = {"developer": "system", "tool": "user"}


def read_chat(messages: list[Json]) -> list[Said]:
    """Return speakers and contents in order; blank text is dropped, nothing else may be."""
    said: list[Said] = []
    for message in messages:
        role = str(ROLES.get(message["role"], message["role"]))
        if message["role"] == "tool":
            inner = read_parts(message["content"])
            said.append((role, "result", message["tool_call_id"], *inner))
        else:
            said += ((role, item) for item in read_parts(message["content"]))
        for call in message.get("tool_calls", []):
            held = json.loads(call["function"]["arguments"])
            said.append((role, "call", call["id"], call["function"]["name"], json.dumps(held)))
    return said


def read_parts(held: Any) -> list[str]:
    if not isinstance(held, list):
        held = [{"type": "text", "text": held or ""}]
    said = [part["text"] if "text" in part else part["image_url"]["url"] for part in held]
    return [one for one in said if one.strip()]


def read_messages(made: Json) -> list[Said]:
    said: list[Said] = [("system", block["text"]) for block in made.get("system", [])]
    for turn in made["messages"]:
        said += ((turn["role"], *read_block(block)) for block in turn["content"])
    return said


def read_block(block: Json) -> Said:
    match block["type"]:
        case "text":
            return (block["text"],)
        case "image":
            source = block["source"]
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
            return (source.get("url", url),)
        case "tool_use":
            return "call", block["id"], block["name"], json.dumps(block["input"])
        case "tool_result":
            held = block.get("content", [])
            held = [{"type": "text", "text": held}] if isinstance(held, str) else held
            return "result", block["tool_use_id"], *(read_block(inner)[0] for inner in held)
        case kind:
            raise AssertionError(kind)


@fuzz(100)
@given(conversations)
def test_any_conversation_keeps_text_tools_ids_and_order(conversation: list[Json]) -> None:
    messages = [*conversation, {"role": "user", "content": "And so?"}]
    made = translate(messages=messages)
    check_request(made)
    assert read_messages(made) == read_chat(messages)
    check_results(made["messages"])


def check_results(turns: list[Json]) -> None:
    """The results of all calls open the next turn, or the upstream refuses them."""
    called: set[str] = set()
    for turn in turns:
        results = [block.get("tool_use_id") for block in turn["content"]]
        answered = {identity for identity in results[: len(called)] if identity}
        assert answered == called
        assert not any(results[len(called) :])
        called = {block["id"] for block in turn["content"] if block["type"] == "tool_use"}
