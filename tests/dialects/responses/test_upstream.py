"""Responses upstreams: requests as sent, JSON replies as read and passed on, and their usage."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.dialects.exchanges import CALLERS, COUNTERS, EXCHANGES
from gateway.dialects.records import Target
from gateway.dialects.responses.stream import (
    count_item_text,
    find_tool,
    is_made,
    read_items,
    read_responses_usage,
)
from gateway.dialects.responses.upstream import ResponsesUpstream, replay_response
from gateway.errors import UndeliverableReply, UpstreamError
from gateway.money import Tokens
from gateway.prices import UNSAID, BillTerms
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import play
from tests.dialects.responses.kit import (
    OTHER_TAG,
    TAG,
    Json,
    call,
    make_context,
    make_response,
    message,
    read_events,
)
from tests.support.rows import each_row

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "d", "name": "p", "input": "*** x"}
REFUSAL = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No"}, "odd"]}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}


@each_row("status", ["completed", "incomplete"])
def test_every_item_is_begun_filled_and_done(status: str) -> None:
    items = [REASONING, message("Hi"), call('{"a":1}'), CUSTOM, REFUSAL, SEARCH]
    response = make_response(*items, status=status, usage=USAGE)
    events = read_events(replay_response(response))
    kinds = [one["type"] for one in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert events[-1] == {
        "type": f"response.{status}", "sequence_number": len(events) - 1, "response": response,
    }  # fmt: skip
    done = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    assert done == items
    said = [one["delta"] for one in events if one["type"].endswith(".delta")]
    assert said == ["Hm", "Hi", '{"a":1}', "*** x", "No"]
    assert kinds.count("response.output_item.added") == len(items)


def test_nothing_is_said_before_its_event() -> None:
    """SDKs gather the text from the events, so what begins with it would have it twice."""
    items = [REASONING, message("Hi"), call('{"a":1}'), CUSTOM, REFUSAL]
    events = read_events(replay_response(make_response(*items, usage=USAGE)))
    assert [(one["response"]["output"], one["response"]["usage"]) for one in events[:2]] == [
        ([], None), ([], None),
    ]  # fmt: skip
    added = [one["item"] for one in events if one["type"] == "response.output_item.added"]
    filled = ("summary", "content", "arguments", "input", "content")
    assert [one[name] for one, name in zip(added, filled, strict=True)] == [[], [], "", "", []]


def test_a_response_without_an_end_has_none_as_a_stream() -> None:
    events = read_events(replay_response(make_response(message("Hi"), status="in_progress")))
    assert events[-1]["type"] == "response.output_item.done"


def test_a_caller_of_a_stream_gets_one() -> None:
    response = make_response(message("Hi"), usage=USAGE)
    pipeline = EXCHANGES["responses"]["responses"].open_replay(make_context())
    played = play(pipeline, [json.dumps(response).encode()])
    assert (played.complete, played.tokens) == (True, Tokens(9, output=3))
    assert read_events(played.out)[-1]["response"]["model"] == "our/model"


UPSTREAM = ResponsesUpstream()
EXCHANGE = EXCHANGES["responses"]["responses"]
TARGET = Target("theirs", provider_tag=TAG)
ENCRYPTED = "reasoning.encrypted_content"


def write(target: Target = TARGET, exchange: Any = EXCHANGE, /, **fields: Any) -> Json:
    data = orjson.dumps({"model": "m", "input": "Hi", **fields})
    written: Json = json.loads(
        exchange.write_request(exchange.caller.parse_request(data), target).data
    )
    return written


def test_a_request_passes_but_for_its_model_and_is_never_stored() -> None:
    fields = {
        "instructions": "Be brief.",
        "reasoning": None,
        "prompt_cache_key": "k",
        "new": {"a": 1},
    }
    added = {"store": False, "include": ["reasoning.encrypted_content"]}
    assert write(**fields) == {"model": "theirs", "input": "Hi", **fields, **added}
    assert "client_metadata" not in write(client_metadata={"x": "y"})


@each_row(
    ("fields", "target", "included"),
    [
        ({}, TARGET, [ENCRYPTED]),
        ({"include": ["a"]}, TARGET, ["a", ENCRYPTED]),
        ({"include": [ENCRYPTED]}, TARGET, [ENCRYPTED]),
        ({"store": False}, TARGET, None),
        ({"store": False, "include": ["a"]}, TARGET, ["a"]),
        ({}, replace(TARGET, reasoning="none"), None),
        ({}, replace(TARGET, upstream_model="gpt-4.1-mini"), None),
        ({}, replace(TARGET, upstream_model="openai/gpt-5-chat-latest"), None),
        ({}, replace(TARGET, upstream_model="gpt-5.5"), [ENCRYPTED]),
    ],
)
def test_reasoning_is_asked_for_where_the_gateway_lets_it_not_be_stored(
    fields: Json, target: Target, included: object
) -> None:
    assert write(target, **fields).get("include") == included


def test_items_behind_no_reasoning_lose_their_ids() -> None:
    """OpenAI would not find the reasoning by its id, nor take what was made with it."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "id": "o", "call_id": "c", "output": ""}
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    said = {"id": "msg_1", "role": "assistant", "content": "Hi"}
    written = write(input=[bare, said, call, output])["input"]
    assert written == [
        {"role": "assistant", "content": "Hi"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        output,
    ]
    kept = {**bare, "encrypted_content": TAG + "x"}
    behind = write(input=[kept, said, call, output, call])["input"]
    assert behind == [{**bare, "encrypted_content": "x"}, said, call, output, written[1]]


def test_a_model_that_does_not_reason_gets_no_reasoning_of_its_providers_others() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": TAG + "a"}
    said = {"role": "user", "content": "Hi"}
    plain = replace(TARGET, upstream_model="ft:gpt-4.1-mini:org::1")
    assert write(plain, input=[item, said])["input"] == [said]
    assert len(write(input=[item, said])["input"]) == len([item, said])


def test_reasoning_returns_to_its_provider_alone() -> None:
    def reason(sealed: str) -> Json:
        return {"type": "reasoning", "summary": [], "encrypted_content": sealed}

    items = [reason(TAG + "a"), reason(OTHER_TAG + "b"), reason("c")]
    assert write(input=items)["input"] == [reason("a")]


def test_a_count_is_asked_with_what_counts_alone() -> None:
    [counter] = [one for one in COUNTERS if one.exchange.caller.name == "responses"]
    extra = {"stream": True, "store": False, "include": [], "service_tier": "priority"}
    asked = write(TARGET, counter.exchange, **extra)
    assert asked == {"model": "theirs", "input": "Hi"}
    counted = dict.fromkeys(("instructions", "parallel_tool_calls", "reasoning", "text"))
    counted |= {"tool_choice": None, "tools": None, "truncation": "auto"}
    assert write(TARGET, counter.exchange, **counted) == {**asked, **counted}
    assert counter.exchange.upstream.path == counter.path == "/responses/input_tokens"


def test_the_key_is_a_bearer() -> None:
    assert UPSTREAM.auth_headers("k") == {"Authorization": "Bearer k"}
    assert UPSTREAM.auth_headers("") == {}
    assert CALLERS["responses"].path == UPSTREAM.path


@each_row("status", ["completed", "incomplete"])
def test_a_reply_passes_but_for_the_model_and_what_is_sealed(status: str) -> None:
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "gA"}
    reply = make_response(sealed, message("Hi"), status=status, usage=USAGE, service_tier="default")
    body = json.dumps(reply, indent=1).encode()
    passed = EXCHANGE.read_reply(body + b"\n", make_context())
    assert passed.body == body.replace(b"theirs", b"our/model").replace(
        b'"gA"', b'"%bgA"' % TAG.encode()
    )
    assert (passed.metered.tokens, passed.metered.estimated) == (Tokens(9, output=3), False)


def test_a_reply_without_a_usage_is_estimated_by_its_text() -> None:
    reply = make_response(message("12345678"), call("1234"))
    passed = EXCHANGE.read_reply(json.dumps(reply).encode(), make_context())
    assert (passed.metered.tokens, passed.metered.estimated) == (Tokens(7, output=3), True)


def test_a_reply_that_says_no_end_is_cut_short() -> None:
    reply = make_response(message("Hi"), status="in_progress", usage=USAGE)
    passed = EXCHANGE.read_reply(json.dumps(reply).encode(), make_context())
    assert isinstance(passed.failure, UndeliverableReply)
    with pytest.raises(UpstreamError, match="empty"):
        EXCHANGE.read_reply(json.dumps(make_response(status="queued")).encode(), make_context())


def test_searches_and_the_tier_are_reported() -> None:
    search = {"type": "web_search_call", "action": {"type": "search"}}
    reply = make_response(search, search, service_tier="priority")
    report = UPSTREAM.read_report(reply, make_context().expected)
    assert (report.tool_calls, report.terms) == ({"web_search": 2}, BillTerms("priority"))
    assert UPSTREAM.has_content(make_response(search))
    assert UPSTREAM.has_content(make_response(message("Hi")))
    assert not UPSTREAM.has_content(make_response(message("")))


EXPECTED = Expected(7, UsageLimits(1000, 100, 100))


def test_the_tier_and_the_calls_are_read() -> None:
    reported = read_responses_usage(None, "priority", {"web_search": 9}, EXPECTED)
    assert (reported.terms, reported.tool_calls) == (BillTerms("priority"), {"web_search": 9})
    assert read_responses_usage(None, None, {}, EXPECTED).terms is UNSAID


@each_row(
    ("item", "count"),
    [
        (message("äb"), 3),
        (call('{"a":1}'), 7),
        ({"type": "custom_tool_call", "input": "abc"}, 3),
        ({"type": "message", "content": [{"type": "refusal", "refusal": "no"}, "odd"]}, 2),
        ({"type": "reasoning", "summary": [{"text": "ab"}], "content": [{"text": "c"}]}, 3),
        ({"type": "code_interpreter_call", "code": "1+1"}, 3),
        ({"type": "image_generation_call", "result": "eA=="}, 6400),
        ({"type": "web_search_call"}, 0),
    ],
)
def test_text_is_counted_wherever_an_item_has_it(item: Json, count: int) -> None:
    assert count_item_text(item) == count


def test_items_that_bring_more_than_text() -> None:
    assert [is_made(one) for one in (message(""), {"type": "reasoning"}, call())] == [
        False,
        False,
        True,
    ]
    assert read_items({"output": [message("a"), 1]}) == [message("a")]
    assert read_items({"output": None}) == []


@each_row(
    ("action", "charged"),
    [({"type": "search"}, True), (None, True), ({"type": "open_page"}, False)],
)
def test_a_search_is_charged_and_a_page_opened_is_not(action: Json | None, charged: bool) -> None:
    found = find_tool({"type": "web_search_call", "action": action})
    assert found == ("web_search" if charged else None)
    assert find_tool(message("x")) is None
