"""A chat completion as a response: items, endings, usage, ids, and invalid ones."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.records import Reply
from gateway.money import Tokens
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL, Json, choice, dump, text
from tests.dialects.messages_over_chat.kit import USED, call, completion, stream
from tests.dialects.responses_over_chat.kit import (
    EXCHANGE,
    PATCH,
    SPACE,
    check_reply,
    items_of,
    make_context,
    play_whole,
    read_response,
)
from tests.support.rows import each_row


def read_reply(reply: Json, body: Json | None = None) -> Reply:
    return EXCHANGE.read_reply(b"\n" + dump(reply), make_context(body or {}))


def read(reply: Json, body: Json | None = None) -> Json:
    return check_reply(read_reply(reply, body))


def test_text() -> None:
    reply = read_reply(completion({"content": "hi"}))
    response = json.loads(reply.body)
    assert (response["id"], response["model"], response["created_at"]) == (
        "resp_request-1",
        MODEL,
        1,
    )
    text = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}
    item = {"id": "msg_request-1_0", "type": "message", "role": "assistant"}
    assert response["output"] == [{**item, "status": "completed", "content": [text]}]
    assert (response["status"], response["error"]) == ("completed", None)
    assert (reply.metered.tokens, reply.metered.estimated) == (USED, False)


def test_items_stand_in_the_order_of_a_turn() -> None:
    message = {
        "reasoning_content": "hm",
        "content": "a",
        "refusal": "no",
        "tool_calls": [call(), call("c2", "patch", '{"input":"x\\ny"}'), call("c3", "ns__f", "")],
    }
    response = read(completion(message, "tool_calls"), {"tools": [PATCH, SPACE]})
    assert items_of(response) == [
        ("reasoning", "hm"),
        ("output_text", "a"),
        ("refusal", "no"),
        ("function_call", "c1", "", "f", "{}"),
        ("custom_tool_call", "c2", "", "patch", "x\ny"),
        ("function_call", "c3", "ns", "f", "{}"),
    ]
    assert [item["id"] for item in response["output"]] == [
        "rs_request-1_0",
        "msg_request-1_1",
        "fc_request-1_2",
        "ctc_request-1_3",
        "fc_request-1_4",
    ]


@each_row(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("eos", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("model_length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_endings(finish: str, status: str, reason: str | None) -> None:
    message = {"reasoning_content": "hm", "content": "a"}
    said = (choice({"reasoning_content": "hm"}), text("a"))
    details = {"reason": reason} if reason else None
    for response in (
        read(completion(message, finish)),
        read_response(play_whole(stream(*said, finish=finish))),
    ):
        assert (response["status"], response["incomplete_details"]) == (status, details)
        assert response["output"][-1]["status"] == status


def test_a_reply_of_reasoning_alone_can_be_cut_off() -> None:
    response = read(completion({"reasoning_content": "hm"}, "length"))
    assert items_of(response) == [("reasoning", "hm")]
    assert response["status"] == "incomplete"


def test_a_call_without_id_gets_one() -> None:
    response = read(completion({"tool_calls": [call(None), call("")]}))
    assert [item["call_id"] for item in response["output"]] == [
        "call_request-1_0",
        "call_request-1_1",
    ]


@each_row(
    ("given", "arguments"), [(None, "{}"), ("", "{}"), ({"a": 1}, '{"a":1}'), ('{"a"', '{"a"')]
)
def test_arguments_of_any_kind(given: Any, arguments: str) -> None:
    response = read(completion({"tool_calls": [call(arguments=given)]}))
    assert response["output"][0]["arguments"] == arguments


def test_an_effort_that_was_not_sent_is_not_told() -> None:
    context = make_context({"reasoning": {"effort": "high", "summary": "auto"}})
    context.effort_sent = False
    reply = EXCHANGE.read_reply(dump(completion({"content": "hi"})), context)
    told = {"effort": None, "summary": "auto"}
    assert json.loads(reply.body)["reasoning"] == told


def test_usage_is_what_is_charged() -> None:
    details = {
        "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8, **details}
    reply = read_reply(completion({"content": "a"}, usage=usage))
    assert reply.metered.tokens == Tokens(2, 2, 1, 3)
    assert json.loads(reply.body)["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 8,
    }
    estimated = read(completion({"content": "abcdef"}, usage=None))["usage"]
    assert (estimated["input_tokens"], estimated["output_tokens"]) == (INPUT_ESTIMATE, 2)
