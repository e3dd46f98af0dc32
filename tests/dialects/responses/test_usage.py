"""The usage of a response, class by class, and the text that stands in for it."""

from __future__ import annotations

from gateway.dialects.responses.usage import (
    count_item_text,
    find_tool,
    is_made,
    read_items,
    read_responses_usage,
)
from gateway.prices import UNSAID, Terms
from gateway.usage import Expected, UsageLimits
from tests.dialects.responses.kit import Json, call, message
from tests.support.rows import each_row

EXPECTED = Expected(7, UsageLimits(1000, 100, 100))


def test_the_tier_and_the_calls_are_read() -> None:
    reported = read_responses_usage(None, "priority", {"web_search": 9}, EXPECTED)
    assert (reported.terms, reported.tool_calls) == (Terms("priority"), {"web_search": 9})
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
