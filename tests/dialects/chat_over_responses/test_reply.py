"""A Responses upstream's JSON replies as chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from gateway.dialects.chat_over_responses import CHAT_OVER_RESPONSES
from gateway.errors import UpstreamError
from tests.dialects.chat.kit import MODEL
from tests.dialects.chat_over_messages.kit import CREATED, make_context
from tests.dialects.chat_over_responses.kit import (
    ITEMS,
    REASONED,
    SPOKEN,
    USAGE,
    call,
    custom,
    make_usage,
    message,
    reasoning,
    refusal,
    text,
)
from tests.support.rows import each_row

Json = dict[str, Any]


def respond(*output: Any, status: str = "completed", **fields: Any) -> Json:
    held = {"id": "resp_1", "object": "response", "status": status, "model": "theirs"}
    return {**held, "output": list(output), "output_text": "never this", **fields}


def read(reply: Json, usage: Json | None = USAGE, **body: Any) -> Json:
    made = CHAT_OVER_RESPONSES.translate_reply(reply, make_context(**body), make_usage(usage))
    ChatCompletion.model_validate_json(json.dumps(made), strict=True)
    return made


def read_choice(*output: Any, body: Json | None = None, **fields: Any) -> Json:
    (choice,) = read(respond(*output, **fields), **(body or {}))["choices"]
    assert (choice["index"], choice["logprobs"]) == (0, None)
    return dict(choice)


def use(identity: str = "c1", name: str = "f", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def test_reply_in_full() -> None:
    assert read(respond(*ITEMS)) == {
        "id": "chatcmpl-request-1",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": SPOKEN,
                    "refusal": None,
                    "reasoning_content": REASONED,
                    "tool_calls": [use("c1", "f", '{"a":1}'), use("c2", "g")],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 20,
            "total_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 15},
        },
    }


def test_an_estimated_usage_has_no_details() -> None:
    usage = read(respond(message(text("a"))), usage=None)["usage"]
    assert usage == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


@each_row(
    ("output", "expected"),
    [
        ([], {"content": ""}),
        ([message(text("a")), message(text("b"))], {"content": "a\n\nb"}),
        ([message(refusal("No."))], {"content": "", "refusal": "No."}),
        ([reasoning()], {"content": ""}),
        ([reasoning("a", "b"), message(text("c")), reasoning("d")],
         {"content": "c", "reasoning_content": "a\n\nb\n\nd"}),
        ([{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
          message(text("c"))], {"content": "c", "reasoning_content": "hm"}),
        ([call(arguments="")], {"content": None, "tool_calls": [use()]}),
        ([custom("c1", "f", "x"), custom("c2", "g")],
         {"content": None,
          "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x"}},
              {"id": "c2", "type": "custom", "custom": {"name": "g", "input": ""}}]}),
        ([{"type": "web_search_call", "content": [text("not said")]}, {"type": []},
          {"type": "message", "content": [7, {"type": []}, {"type": "new"}, text("a")]},
          {"type": "message", "content": "b"}, "nonsense"], {"content": "a"}),
    ],
)  # fmt: skip
def test_items_become_one_message(output: list[Any], expected: Json) -> None:
    made = read_choice(*output)["message"]
    assert made == {"role": "assistant", "refusal": None, **expected}


@each_row(
    ("item", "fields", "finish"),
    [
        (message(text("a")), {}, "stop"),
        (message(refusal("a")), {}, "stop"),
        (call(), {}, "tool_calls"),
        (custom(), {"status": None}, "tool_calls"),
        (message(text("a")), {"status": "incomplete"}, "length"),
        (call(), {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
         "length"),
        (message(text("a")),
         {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
    ],
)  # fmt: skip
def test_finish_reasons(item: Json, fields: Json, finish: str) -> None:
    assert read_choice(item, **fields)["finish_reason"] == finish


@each_row(
    ("status", "error", "said"),
    [
        ("failed", {"code": "server_error", "message": "It broke."}, "It broke."),
        ("failed", None, "ended its reply with an error"),
        ("cancelled", None, "ended its reply with an error"),
    ],
)
def test_a_reply_that_failed_is_the_upstreams_fault(
    status: str, error: Json | None, said: str
) -> None:
    with pytest.raises(UpstreamError, match=said):
        read(respond(message(text("a")), status=status, error=error))


def test_a_caller_of_functions_gets_a_function_call() -> None:
    body = {"functions": [{"name": "f"}]}
    choice = read_choice(call(arguments='{"a":1}'), call("c2"), body=body)
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert "tool_calls" not in choice["message"]
