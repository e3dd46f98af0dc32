"""Composed translations that are used: messages callers over Responses, Responses callers over messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.dialects.base import Pipeline
from gateway.dialects.chat_over_responses import CHAT_OVER_RESPONSES
from gateway.dialects.composed import compose
from gateway.dialects.exchanges import CALLERS, TRANSLATIONS, UPSTREAMS, Exchange
from gateway.dialects.records import Target
from gateway.errors import BadRequest
from tests.dialects.chat.kit import MODEL
from tests.dialects.chat_over_responses.kit import TARGET, call, check_request, say
from tests.dialects.chat_over_responses.kit import open_stream as open_translated
from tests.dialects.messages_over_chat.kit import make_context
from tests.dialects.responses_over_chat.kit import (
    PATCH,
    SPACE,
    TOOL,
    custom_call,
    function_call,
    make_request,
    output,
)
from tests.support.rows import each_row

Json = dict[str, Any]

MESSAGES_OVER_RESPONSES: Final = compose(
    TRANSLATIONS["messages", "chat"], CHAT_OVER_RESPONSES, (CALLERS["chat"], UPSTREAMS["chat"])
)
LINK: Final = "https://example.com/a.pdf"
ASKED: Final[Json] = {
    "model": MODEL,
    "max_tokens": 5000,
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "two", "is_error": True},
                {"type": "text", "text": "So?"},
            ],
        },
    ],
    "tools": [{"name": "f", "description": "Does.", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "stream": True,
}


def ask(target: Target = TARGET, **fields: Any) -> Json:
    request = CALLERS["messages"].parse_request(json.dumps({**ASKED, **fields}).encode())
    made = MESSAGES_OVER_RESPONSES.translate_request(request, target)
    check_request(made)
    return made


def open_stream() -> Pipeline:
    return open_translated(make_context(), MESSAGES_OVER_RESPONSES)


def test_a_tool_loop_is_asked_for() -> None:
    assert ask() == {
        "model": MODEL,
        "instructions": "Be brief.",
        "input": [
            say("user", "Hi"),
            say("assistant", "Let me see."),
            call("c1", "f", '{"a":1}'),
            call("c2", "g", "{}"),
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": "Error: two"},
            say("user", "So?"),
        ],
        "tools": [
            {
                "type": "function",
                "name": "f",
                "description": "Does.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 5000,
        "stream": True,
    }


@each_row(
    ("fields", "reasoning"),
    [
        ({}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 3000}}, {"effort": "medium"}),
        ({"thinking": {"type": "disabled"}}, None),
        ({"output_config": {"effort": "max"}}, {"effort": "max"}),
    ],
)
def test_reasoning_is_asked_for_as_an_effort(fields: Json, reasoning: Json | None) -> None:
    assert ask(**fields).get("reasoning") == reasoning
    assert "reasoning" not in ask(replace(TARGET, reasoning="none"), **fields)


def test_documents_are_named_by_their_address() -> None:
    document = {"type": "document", "source": {"type": "url", "url": LINK}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [document]}
    blocks = [{**document, "title": "a.pdf"}, result]
    (*_, said) = ask(messages=[*ASKED["messages"], {"role": "user", "content": blocks}])["input"]
    file = {"type": "input_file", "file_url": LINK}
    files = [part for part in said["content"] if part["type"] == "input_file"]
    assert files == [file, {**file, "filename": "a.pdf"}]
    link = {"type": "url", "url": "http://example.com/a.pdf"}
    with pytest.raises(BadRequest) as refused:
        ask(messages=[{"role": "user", "content": [{**document, "source": link}]}])
    assert refused.value.param == "messages.0.content.0.source"


RESPONSES_OVER_MESSAGES = compose(
    TRANSLATIONS["responses", "chat"],
    TRANSLATIONS["chat", "messages"],
    (CALLERS["chat"], UPSTREAMS["chat"]),
)
EXCHANGE = Exchange(CALLERS["chat"], UPSTREAMS["messages"], RESPONSES_OVER_MESSAGES)


PDF: Json = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}


def ask_messages(**body: Any) -> Json:
    request = make_request({"model": "m", "input": "hi", **body})
    asked: Json = json.loads(EXCHANGE.write_request(request, Target("theirs")).data)
    return asked


def test_a_request_with_tools() -> None:
    items = [
        {"role": "user", "content": "hi"},
        custom_call("c1", "patch", "x"),
        function_call("c2", namespace="ns"),
        output("c1", "ok", "custom_tool_call_output"),
        output("c2"),
    ]
    body = {"model": "m", "instructions": "a", "input": items, "tools": [TOOL, PATCH, SPACE]}
    asked = json.loads(EXCHANGE.write_request(make_request(body), Target("theirs")).data)
    assert [tool["name"] for tool in asked["tools"]] == ["f", "patch", "ns__f", "ns__c"]
    uses = [
        {"type": "tool_use", "id": "c1", "name": "patch", "input": {"input": "x"}},
        {"type": "tool_use", "id": "c2", "name": "ns__f", "input": {}},
    ]
    assert asked["messages"][1] == {"role": "assistant", "content": uses}
    results = asked["messages"][2]["content"]
    assert [block["tool_use_id"] for block in results] == ["c1", "c2"]


@each_row(
    ("file", "block"),
    [
        ({"file_url": LINK}, {"source": {"type": "url", "url": LINK}}),
        ({"file_url": LINK, "filename": "a"}, {"source": {"type": "url", "url": LINK}, "title": "a"}),
        ({"file_data": "JVBERi0x"}, {"source": PDF}),
        ({"file_data": "data:application/pdf;base64,JVBERi0x"}, {"source": PDF}),
        ({"file_data": "data:text/plain;base64,aGk=", "filename": "a"},
         {"source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "title": "a"}),
    ],
)  # fmt: skip
def test_documents(file: Json, block: Json) -> None:
    part = {"type": "input_file", **file}
    document = {"type": "document", **block}
    assert ask_messages(input=[{"role": "user", "content": [part]}])["messages"][0]["content"] == [
        document
    ]
    results = ask_messages(input=[function_call(), output("c1", [part])])["messages"]
    assert document in results[1]["content"]


@each_row("link", ["http://example.com/a.pdf", 7])
def test_links_that_the_upstream_cannot_follow_are_refused(link: object) -> None:
    with pytest.raises(BadRequest) as refused:
        ask_messages(
            input=[{"role": "user", "content": [{"type": "input_file", "file_url": link}]}]
        )
    assert refused.value.param == "input[0].content[0].file_url"
