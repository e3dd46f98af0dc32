"""Chat callers over other dialects: their fields, and what some upstreams leave out. `requests` and `heard.txt` have the rest."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, Final

import pytest
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import CompletionRequest, Target
from tests.dialects.chat.kit import make_context
from tests.support.formats import CALLERS, EXCHANGES, TRANSLATIONS
from tests.support.messages import make_message
from tests.support.rows import each_row

TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@each_row(
    "module",
    [
        import_module(one.translate_request.__module__)
        for (caller, _), one in TRANSLATIONS.items()
        if caller == "chat"
    ],
)
def test_every_field_of_the_chat_schema_is_in_one_table(module: Any) -> None:
    """A table has no other field: a name that the SDK adds must be decided on here."""
    schema = {
        *CompletionCreateParamsNonStreaming.__annotations__,
        *CompletionCreateParamsStreaming.__annotations__,
    }
    tables = [*module.CARRIED, *module.DROPPED, *module.REFUSED]
    assert sorted(tables) == sorted(schema)
    assert not module.PASSED & schema


def read_request(**body: Any) -> CompletionRequest:
    whole = {"model": "our/model", "messages": [{"role": "user", "content": "Hi"}], **body}
    return CALLERS["chat"].parse_request(json.dumps(whole).encode())


@each_row("provider", [one for one in EXCHANGES if one != "chat"])
def test_the_callers_request_is_left_as_it_was(provider: str) -> None:
    """The next route may use another dialect."""
    request = read_request(
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "a"}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": "b"},
        ],
        tools=[TOOL],
        parallel_tool_calls=False,
        reasoning_effort="low",
        metadata={"a": "b"},
    )
    before = json.dumps(request.body)
    EXCHANGES["chat"][provider].write_request(request, Target("theirs"))
    assert json.dumps(request.body) == before


def test_request_that_cannot_be_written_is_refused() -> None:
    schema = json.loads('{"items":' * 300 + "{}" + "}" * 300)
    function = {"name": "f", "parameters": schema}
    request = read_request(tools=[{"type": "function", "function": function}])
    with pytest.raises(BadRequest, match="nested too deeply"):
        EXCHANGES["chat"]["messages"].write_request(request, Target("theirs"))


def test_broken_text_of_the_upstream_passes() -> None:
    body = json.dumps(make_message("HERE")).encode().replace(b"HERE", b"\\ud800\xff")
    made = EXCHANGES["chat"]["messages"].read_reply(b"\n\n" + body, make_context())
    assert json.loads(made.body)["choices"][0]["message"]["content"] == "\ud800\ufffd"
