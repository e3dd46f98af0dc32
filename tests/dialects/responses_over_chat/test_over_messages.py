"""Responses callers over messages upstreams: two translations in a row keep all that one does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.composed import compose
from gateway.dialects.exchanges import CALLERS, TRANSLATIONS, UPSTREAMS, Exchange
from gateway.errors import BadRequest
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.kit import (
    PATCH,
    SPACE,
    TARGET,
    TOOL,
    custom_call,
    function_call,
    make_request,
    message,
    output,
)
from tests.support.rows import each_row

TRANSLATION = compose(
    TRANSLATIONS["responses", "chat"],
    TRANSLATIONS["chat", "messages"],
    (CALLERS["chat"], UPSTREAMS["chat"]),
)
EXCHANGE = Exchange(CALLERS["chat"], UPSTREAMS["messages"], TRANSLATION)


LINK = "https://example.com/a.pdf"
PDF: Json = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}


def ask(**body: Any) -> Json:
    request = make_request({"model": "m", "input": "hi", **body})
    asked: Json = json.loads(EXCHANGE.write_request(request, TARGET).data)
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
    asked = json.loads(EXCHANGE.write_request(make_request(body), TARGET).data)
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
    assert ask(input=[message("user", [part])])["messages"][0]["content"] == [document]
    results = ask(input=[function_call(), output("c1", [part])])["messages"]
    assert document in results[1]["content"]


@each_row("link", ["http://example.com/a.pdf", 7])
def test_links_that_the_upstream_cannot_follow_are_refused(link: object) -> None:
    with pytest.raises(BadRequest) as refused:
        ask(input=[message("user", [{"type": "input_file", "file_url": link}])])
    assert refused.value.param == "input[0].content[0].file_url"
