"""Calls in a stream: interleaved ones, custom ones, names and ids that are late or missing."""

from __future__ import annotations

import pytest

from gateway.dialects import to_chat
from tests.dialects.chat.kit import Json, choice, text
from tests.dialects.messages_over_chat.kit import INTERLEAVED, SEQUENTIAL, begin, fragment
from tests.dialects.responses_over_chat.kit import (
    PATCH,
    SPACE,
    items_of,
    kinds_of,
    play_whole,
    read_events,
    read_response,
    stream,
)
from tests.support.rows import each_row

BOTH = [
    ("function_call", "c0", "", "f0", '{"a":1}'),
    ("function_call", "c1", "", "f1", '{"b":2}'),
]


def hear(*choices: Json, tools: list[Json] | None = None) -> Json:
    body = {"stream": True, "tools": tools or []}
    return read_response(play_whole(stream(*choices, finish="tool_calls"), body))


def test_a_call_event_by_event() -> None:
    played = play_whole(stream(begin(0), fragment(0, '{"a"'), fragment(0, ":1}")))
    read_response(played)
    item = {"id": "fc_request-1_0", "type": "function_call", "call_id": "c0", "name": "f0"}
    place = {"item_id": "fc_request-1_0", "output_index": 0}
    arguments = "response.function_call_arguments"
    added = {**item, "arguments": "", "status": "in_progress"}
    whole = {"arguments": '{"a":1}'}
    expected: list[Json] = [
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        {"type": f"{arguments}.delta", **place, "delta": '{"a"'},
        {"type": f"{arguments}.delta", **place, "delta": ":1}"},
        {"type": f"{arguments}.done", **place, **whole, "name": "f0"},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, **whole, "status": "completed"},
        },
    ]
    assert read_events(played.out)[2:-1] == [
        {**one, "sequence_number": number} for number, one in enumerate(expected, 2)
    ]


@each_row("choices", [SEQUENTIAL, INTERLEAVED])
def test_calls_in_any_order_are_told_apart(choices: list[Json]) -> None:
    assert items_of(hear(*choices)) == BOTH


def test_fragments_of_all_calls_leave_at_once() -> None:
    kinds = kinds_of(play_whole(stream(*INTERLEAVED)).out)[2:-1]
    delta, done = "function_call_arguments.delta", "function_call_arguments.done"
    ends = [done, "output_item.done"] * 2
    assert kinds == ["output_item.added"] * 2 + [delta] * 4 + ends


@each_row("blank", ["", " ", "\n"])
def test_a_call_without_arguments_gets_an_empty_object(blank: str) -> None:
    given = [] if not blank else [fragment(0, blank)]
    assert items_of(hear(begin(0), *given)) == [
        ("function_call", "c0", "", "f0", blank + "{}"),
    ]


def test_arguments_as_an_object_are_written() -> None:
    call = {"index": 0, "id": "c0", "function": {"name": "f0", "arguments": {"a": 1}}}
    assert items_of(hear(choice({"tool_calls": [call]}))) == BOTH[:1]


def test_a_late_name_is_waited_for() -> None:
    late = (fragment(0, '{"a"', id="c0"), fragment(0, ":1}", name="f0"))
    assert items_of(hear(*late)) == BOTH[:1]


def test_a_call_without_id_gets_one() -> None:
    response = hear(fragment(0, "{}", name="f"), fragment(1, "{}", name="g"))
    assert [item["call_id"] for item in response["output"]] == [
        "call_request-1_0",
        "call_request-1_1",
    ]


def test_calls_at_one_position_are_told_apart_by_their_ids() -> None:
    calls = (fragment(0, '{"a":1}', id="c0", name="f0"), fragment(0, '{"b":2}', id="c1", name="f1"))
    assert items_of(hear(*calls)) == BOTH


def test_a_custom_call_event_by_event() -> None:
    arguments = (fragment(0, '{"inp'), fragment(0, 'ut":"a\\'), fragment(0, 'nb"}'))
    begun = fragment(0, "", id="c0", name="patch")
    played = play_whole(stream(begun, *arguments), {"stream": True, "tools": [PATCH]})
    assert items_of(read_response(played)) == [("custom_tool_call", "c0", "", "patch", "a\nb")]
    added, *deltas, done, ended = read_events(played.out)[2:-1]
    assert (added["item"]["id"], added["item"]["input"]) == ("ctc_request-1_0", "")
    assert [(one["type"], one["delta"]) for one in deltas] == [
        ("response.custom_tool_call_input.delta", "a"),
        ("response.custom_tool_call_input.delta", "\nb"),
    ]
    assert (done["type"], done["input"]) == ("response.custom_tool_call_input.done", "a\nb")
    assert ended["item"]["status"] == "completed"


def test_tools_of_a_namespace_get_their_names_back() -> None:
    calls = (
        fragment(0, "{}", id="c0", name="ns__f"),
        fragment(1, '{"input":"x"}', id="c1", name="ns__c"),
        fragment(2, "{}", id="c2", name="ns__unknown"),
    )
    assert items_of(hear(*calls, tools=[SPACE])) == [
        ("function_call", "c0", "ns", "f", "{}"),
        ("custom_tool_call", "c1", "ns", "c", "x"),
        ("function_call", "c2", "", "ns__unknown", "{}"),
    ]


def test_text_ends_before_a_call_and_a_call_stays_open_behind_text() -> None:
    played = play_whole(stream(text("a"), begin(0), text("b"), fragment(0, "{}")))
    assert items_of(read_response(played)) == [
        ("output_text", "a"),
        ("function_call", "c0", "", "f0", "{}"),
        ("output_text", "b"),
    ]


def test_arguments_behind_the_end_fail_and_white_space_does_not() -> None:
    over = [choice({}, "tool_calls")]
    played = play_whole(stream(begin(0, "{}"), *over, fragment(0, "x")))
    assert played.failure == "The upstream added to a tool call that was complete."
    assert items_of(hear(begin(0, "{}"), *over, fragment(0, " "))) == [
        ("function_call", "c0", "", "f0", "{}")
    ]


def test_a_reply_is_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_chat, "MAX_HELD_CHARS", 4)
    assert play_whole(stream(text("abcd"))).complete
    for choices in ([text("abc"), text("de")], [fragment(0, "abcde", id="c")]):
        played = play_whole(stream(*choices))
        assert played.failure == "The upstream's reply is too large."
        assert not played.complete
