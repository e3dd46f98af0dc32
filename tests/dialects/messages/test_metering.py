"""The metering of messages: terms, searches, iterations, and cache writes."""

from __future__ import annotations

from typing import Any

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import ReplyContext
from gateway.money import Tokens
from gateway.prices import Asked, BillTerms
from gateway.usage import Metered
from tests.dialects.chat.kit import dump
from tests.dialects.chat_over_messages.kit import STOP, close, finish, frame, open_block, say, start
from tests.dialects.hearing import bound
from tests.dialects.messages_over_chat.kit import make_context as make_messages_context
from tests.support.rows import each_row

Json = dict[str, Any]

SERVED: Json = {
    "input_tokens": 10,
    "output_tokens": 5,
    "service_tier": "priority",
    "speed": "fast",
    "inference_geo": "us",
    "server_tool_use": {"web_search_requests": 2},
}


def test_a_message_is_charged_on_the_terms_it_was_served() -> None:
    pipeline = EXCHANGES["messages"]["messages"].open_stream(make_messages_context())
    pipeline.feed(frame(start(input_tokens=10), finish("end_turn", **SERVED), STOP))
    metered = pipeline.measure()
    assert metered.terms == BillTerms("priority", "fast", "us")
    assert (metered.tokens, metered.tool_calls, metered.estimated) == (
        Tokens(10, output=5),
        {"web_search": 2},
        False,
    )


def measure_message(*told: Json, context: ReplyContext | None = None) -> Metered:
    context = context or make_messages_context()
    pipeline = EXCHANGES["messages"]["messages"].open_stream(context)
    pipeline.feed(frame(*told))
    return pipeline.measure()


def test_a_message_whose_output_nobody_counted_is_estimated_and_noted() -> None:
    """`message_start` only begins to count it."""
    told = [start(input_tokens=10, output_tokens=1), open_block(0, text=""), say("a" * 40), close()]
    for usage in ({}, {"output_tokens": None}, {"output_tokens": 0}):
        metered = measure_message(*told, finish("end_turn", **usage), STOP)
        assert (metered.tokens, metered.estimated) == (Tokens(10, output=10), True)
        assert metered.unreported
    metered = measure_message(*told, finish("end_turn", output_tokens=9), STOP)
    assert (metered.tokens, metered.estimated) == (Tokens(10, output=9), False)
    assert not metered.unreported


def test_a_later_report_of_nothing_discards_no_count_of_a_message() -> None:
    told = [start(input_tokens=10, output_tokens=1), open_block(0, text=""), say("a" * 40), close()]
    usages: list[Json] = [{"output_tokens": 0}, {"input_tokens": 0, "output_tokens": 0}]
    for usage in usages:
        ends = finish(None, output_tokens=9), finish("end_turn", **usage)
        assert measure_message(*told, *ends, STOP).tokens == Tokens(10, output=9)


def search(content: object) -> Json:
    result = {"type": "web_search_tool_result", "tool_use_id": "t", "content": content}
    return {"type": "content_block_start", "index": 0, "content_block": result}


FAILED = search({"type": "web_search_tool_result_error", "error_code": "unavailable"})


@each_row(
    ("usage", "searches", "estimated"),
    [
        ({"server_tool_use": {"web_search_requests": 1}}, 1, False),
        ({"server_tool_use": {"web_search_requests": 0}}, 0, False),
        ({"server_tool_use": {"web_search_requests": 10_000}}, 10_000, False),
        ({"server_tool_use": {"web_search_requests": 10_001}}, 10_000, False),
        ({"server_tool_use": None}, 2, True),
        ({}, 2, True),
    ],
)
def test_searches_are_those_reported_or_else_their_results(
    usage: Json, searches: int, *, estimated: bool
) -> None:
    context = bound(100, Asked(tool_calls={"web_search": 5}))
    told = {"input_tokens": 10, "output_tokens": 5, **usage}
    blocks = [search([]), FAILED, search([])]
    metered = measure_message(start(), *blocks, finish("end_turn", **told), STOP, context=context)
    calls = {"web_search": searches} if searches else {}
    assert (metered.tool_calls, metered.estimated) == (calls, estimated)
    content = [block["content_block"] for block in blocks]
    reply = {"content": content, "stop_reason": "end_turn", "usage": told}
    whole = EXCHANGES["messages"]["messages"].read_reply(dump(reply), context).metered
    assert (whole.tool_calls, whole.estimated) == (calls, estimated)


def test_a_usage_without_searches_says_that_there_were_none() -> None:
    context = bound(100, Asked(tool_calls={"web_search": 5}))
    ends = finish("end_turn", input_tokens=10, output_tokens=5), STOP
    metered = measure_message(start(), FAILED, *ends, context=context)
    assert (metered.tool_calls, metered.estimated) == ({}, False)


def test_searches_that_a_broken_stream_did_not_count_are_counted() -> None:
    for used in ({}, {"server_tool_use": {"web_search_requests": 0}}):
        begun = start(input_tokens=10, output_tokens=1, **used)
        calls = measure_message(begun, search([]), search([])).tool_calls
        assert calls == {"web_search": 2}


def test_iterations_complete_the_figures_beside_them() -> None:
    top: Json = {
        "input_tokens": 10,
        "output_tokens": 50,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    for parts, tokens in (
        ([{"input_tokens": 4, "output_tokens": None}], Tokens(10, 7, 10, 50, 20)),
        (
            [{"input_tokens": 4}, {"input_tokens": 8, "output_tokens": 60}],
            Tokens(12, 7, 10, 60, 20),
        ),
        ([{"cache_creation_input_tokens": 30}], Tokens(10, 7, 10, 50, 20)),
        ([{"cache_creation_input_tokens": 31}], Tokens(10, 7, 31, 50, 0)),
        ([{"cache_read_input_tokens": 9}], Tokens(10, 9, 10, 50, 20)),
    ):
        metered = measure_message(start(), finish("end_turn", **top, iterations=parts), STOP)
        assert (metered.tokens, metered.estimated) == (tokens, False)
    begun = start(input_tokens=10, iterations=[{"input_tokens": 10, "output_tokens": 1}])
    assert measure_message(begun, finish(output_tokens=50), STOP).tokens == Tokens(10, output=50)


@each_row(
    ("usage", "tokens", "estimated"),
    [
        ({"cache_creation_input_tokens": 30}, Tokens(10, output=5, cache_write_1h=30), True),
        (
            {
                "cache_creation_input_tokens": 30,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 10,
                    "ephemeral_1h_input_tokens": 20,
                },
            },
            Tokens(10, 0, 10, 5, 20),
            False,
        ),
        (
            {"cache_creation_input_tokens": 30, "cache_creation": {}},
            Tokens(10, output=5, cache_write_1h=30),
            True,
        ),
        (
            {
                "cache_creation_input_tokens": 30,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 10,
                    "ephemeral_1h_input_tokens": None,
                },
            },
            Tokens(10, 0, 10, 5, 20),
            True,
        ),
        ({}, Tokens(10, output=5), False),
    ],
)
def test_writes_for_an_hour_are_told_apart_or_charged_as_asked(
    usage: Json, tokens: Tokens, *, estimated: bool
) -> None:
    pipeline = EXCHANGES["messages"]["messages"].open_stream(bound(100, Asked(cache="1h")))
    told = {"input_tokens": 10, "output_tokens": 5, **usage}
    pipeline.feed(frame(start(), finish("end_turn", **told), STOP))
    metered = pipeline.measure()
    assert (metered.tokens, metered.estimated) == (tokens, estimated)
