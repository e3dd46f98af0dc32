"""Responses input as chat messages, and its content as parts."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

from openai.types.responses import ResponseInputItemParam

from gateway.dialects.chat.writer import FILES_NOTE
from gateway.dialects.records import Target
from gateway.dialects.responses.history import SUMMARIES
from gateway.dialects.responses_over_chat.request import DROPPED_ITEMS
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.kit import (
    PNG,
    PNG_PART,
    PNG_URL,
    TOOL,
    called,
    chat_call,
    custom_call,
    function_call,
    message,
    output,
    result,
    text,
    user,
    write,
    write_messages,
)
from tests.support.rows import each_row

HI = user("hi")


def assistant(content: str | None) -> Json:
    return {"role": "assistant", "content": content}


def test_leading_instructions_become_one_system_message_and_later_ones_stay() -> None:
    items = (
        message("developer", [text("b"), text("c")]),
        message("user", "hi"),
        {"role": "system", "content": "d"},
    )
    system = {"role": "system", "content": "a\n\nb\n\nc"}
    late = {"role": "system", "content": "d"}
    assert write_messages(*items, instructions="a") == [system, HI, late]
    leading = write(Target("theirs", leading_system=True), input=[*items], instructions="a")
    assert leading["messages"] == [{"role": "system", "content": "a\n\nb\n\nc\n\nd"}, HI]
    assert write(instructions="a")["messages"] == [{"role": "system", "content": "a"}, HI]
    assert write(instructions="")["messages"] == [HI]


def test_messages_with_and_without_type() -> None:
    said = (
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
        message("assistant", [text("a", "output_text"), text("b", "output_text")]),
        message("user", [text("hi")]),
    )
    assert write_messages(*said) == [HI, assistant("ho\n\nab"), HI]


def test_a_refusal_is_what_the_assistant_said() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    assert write_messages(message("assistant", [refusal])) == [assistant("No.")]


def test_calls_in_a_row_and_what_was_said_before_are_one_turn() -> None:
    items = (
        message("user", "hi"),
        message("assistant", [text("ho", "output_text")]),
        function_call("c1"),
        custom_call("c2", "patch", 'a"b'),
        output("c1"),
        output("c2", "ok", "custom_tool_call_output"),
        function_call("c3"),
        output("c3"),
        message("assistant", "end"),
    )
    calls = (chat_call("c1"), chat_call("c2", "patch", json.dumps({"input": 'a"b'}, separators=(",", ":"))))  # fmt: skip
    assert write_messages(*items) == [
        HI,
        called(*calls, content="ho"),
        result("c1"),
        result("c2", "ok"),
        called(chat_call("c3")),
        result("c3"),
        assistant("end"),
    ]


def test_results_stand_behind_their_calls_wherever_they_come() -> None:
    items = (
        function_call("c1"),
        message("user", "hi"),
        function_call("c2"),
        output("c1"),
        message("user", "hi"),
        output("c2"),
    )
    assert write_messages(*items) == [
        called(chat_call("c1")),
        result("c1"),
        HI,
        called(chat_call("c2")),
        result("c2"),
        HI,
    ]


def test_an_assistant_goes_on_behind_its_calls() -> None:
    items = (function_call("c1"), message("assistant", "ho"), output("c1"))
    assert write_messages(*items) == [called(chat_call("c1"), content="ho"), result("c1")]


def test_a_result_without_its_call_is_the_upstreams_affair() -> None:
    assert write_messages(output("c9")) == [result("c9")]


def test_a_result_may_be_an_array_with_pictures() -> None:
    items = (function_call("c1"), output("c1", [text("seen"), PNG]), message("user", "hi"))
    about = {"type": "text", "text": "[From the result of tool call c1:]"}
    assert write_messages(*items) == [
        called(chat_call("c1")),
        result("c1", f"seen\n\n{FILES_NOTE}"),
        user([about, PNG_PART]),
        HI,
    ]


def test_calls_in_a_namespace_have_its_name() -> None:
    items = (function_call(namespace="ns"), custom_call("c2", "c", "x", namespace="ns"))
    (turn,) = write_messages(*items)
    assert [call["function"]["name"] for call in turn["tool_calls"]] == ["ns__f", "ns__c"]


def test_what_another_agent_says_is_the_users_word_unless_it_is_sealed() -> None:
    """Codex sends it so: a provider that seals nothing leaves the words in the clear."""

    def say(sealed: str) -> list[Json]:
        parts = [text("Payload:"), {"type": "encrypted_content", "encrypted_content": sealed}]
        agents = {"author": "/root", "recipient": "/root/worker"}
        return write_messages({"type": "agent_message", **agents, "content": parts}, HI)

    both = [{"type": "text", "text": "Payload:"}, {"type": "text", "text": "Do it."}]
    assert say("Do it.") == [user(both), HI]
    assert say("gAAAAABo") == say("gw1.0123abcd.x") == [user("Payload:"), HI]
    sealed = {"type": "encrypted_content", "encrypted_content": "gAAAAABo"}
    assert write_messages({"type": "agent_message", "content": [sealed]}, HI) == [HI]


@each_row("kind", sorted(DROPPED_ITEMS - {"additional_tools"}))
def test_what_only_the_vendor_can_use_is_left_out_with_its_result(kind: str) -> None:
    hosted = {"type": kind, "id": "x", "call_id": "c7", "encrypted_content": "e"}
    items = (message("user", "hi"), hosted, output("c7"), {"type": "reasoning", "summary": []})
    assert write_messages(*items) == [HI]


def test_every_item_of_the_schema_is_known() -> None:
    known = {"message", "function_call", "function_call_output", "item_reference"}
    known |= DROPPED_ITEMS | SUMMARIES
    known |= {"custom_tool_call", "custom_tool_call_output", "reasoning"}
    kinds: set[Any] = set()
    for model in get_args(ResponseInputItemParam):
        for one in get_args(get_type_hints(model)["type"]):
            kinds |= set(get_args(one)) or {one}
    assert len(kinds) > 20
    assert kinds - {type(None)} <= known


def test_reasoning_of_a_turn_that_did_not_come_is_left_out() -> None:
    """An interrupted agent leaves it so; the model would take it for another turn's."""

    def reason(text: str) -> Json:
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}

    takes = Target("theirs", takes=frozenset({"reasoning_content"}))
    items = [message("user", "a"), reason("old"), message("user", "b"), reason("new")]
    written = write(takes, input=[*items, message("assistant", "c")], tools=[TOOL])["messages"]
    assert [one.get("reasoning_content") for one in written] == [None, None, "new"]


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
