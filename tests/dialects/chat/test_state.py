"""State that chat upstreams want back with a turn, as it is collected. `requests` has it as it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.base.errors import UndeliverableReply
from gateway.dialects.chat.history import write_history
from gateway.dialects.chat.state import STATE, StateCollector
from gateway.dialects.wire.records import Target
from gateway.dialects.wire.seals import open_seals, seal, tag_provider
from tests.dialects.chat.kit import Json
from tests.support.rows import each_row

TAG = tag_provider("alpha", "https://alpha.example/v1")
SIGNED = {"google": {"thought_signature": "sig"}}


def turn(*ids: str, **fields: Any) -> Json:
    calls = [
        {"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def write(*messages: Json, **settings: Any) -> list[Json]:
    target = Target("theirs", provider_tag=TAG, **settings)
    return write_history([*messages], target, ["f"])


def test_what_has_nothing_to_bring_back_is_the_same_object() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        turn("call_1"),
        {"role": "assistant", "content": ""},
    ]
    written = write(*messages)
    assert all(ours is given for ours, given in zip(written, messages, strict=True))


def test_details_come_back_whole() -> None:
    first = [
        {"type": "reasoning.text", "index": 0, "text": "a", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "b"},
        {"type": "reasoning.encrypted", "index": 1, "id": "a", "data": "x"},
        {"type": "reasoning.encrypted", "index": 1, "id": "a", "data": "z"},
        {"type": "reasoning.encrypted", "index": 1, "id": "b", "data": "y"},
        {"type": "reasoning.summary", "summary": "s"},
        "odd",
    ]
    collector = StateCollector(TAG)
    collector.add({"reasoning_details": first})
    sealed = collector.take()
    collector.add(
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "sig"}]}
    )
    sealed += "," + collector.take()
    assert collector.take() == ""
    [written] = write({"role": "assistant", "content": "Hi", STATE: {"sealed": [sealed]}})
    assert written["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "id": "a", "data": "xz"},
        {"type": "reasoning.encrypted", "index": 1, "id": "b", "data": "y"},
        {"type": "reasoning.summary", "summary": "s"},
    ]


@each_row("odd", [{"tool_calls": [7]}, {"tool_calls": "x"}, {"tool_calls": [{"id": 7}]}])
def test_odd_calls_pass_for_the_upstream_to_judge(odd: Json) -> None:
    message = {"role": "assistant", "content": None, **odd}
    assert write(message) == [message]
    for role in ("assistant", "user"):
        said = {"role": role, "content": ""}
        assert write({**said, STATE: "forged"}) == write({**said, STATE: {"sealed": [7]}}) == [said]


@each_row("odd", ["x", None, {"sealed": 7}, {}])
def test_a_provider_that_sends_the_member_itself_breaks_nothing(odd: object) -> None:
    collector = StateCollector(TAG)
    collector.add({STATE: odd, "reasoning_details": "x", "tool_calls": [7, {"extra_content": 7}]})
    assert collector.take() == ""


def test_details_have_a_bound() -> None:
    collector = StateCollector(TAG)
    large = {"reasoning_details": [{"text": "x" * (1 << 20)}]}
    for _ in range(7):
        collector.add(large)
    with pytest.raises(UndeliverableReply):
        collector.add(large)


def test_a_collector_takes_the_seals_of_a_translation_as_they_are() -> None:
    collector = StateCollector(TAG)
    collector.add(
        {STATE: {"sealed": seal(1, TAG)}, "tool_calls": [{"id": "a", "extra_content": SIGNED}]}
    )
    states = open_seals(collector.take(), TAG)
    assert states == [1, {"details": [], "calls": {"a": SIGNED}}]
    assert open_seals(collector.take_any(), TAG) == []
    assert collector.take_any()
