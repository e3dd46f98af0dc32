"""State that chat upstreams want back with a turn: signatures, details, reasoning and their own ids."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.dialects.chat.state import (
    STATE,
    StateCollector,
    open_seals,
    seal,
    seal_id,
    tag_provider,
    write_history,
)
from gateway.dialects.records import Target
from gateway.errors import UndeliverableReply
from tests.dialects.chat.kit import Json
from tests.support.rows import each_row

TAG = tag_provider("alpha", "https://alpha.example/v1")
OTHER = tag_provider("beta", "https://beta.example/v1")
SIGNED = {"google": {"thought_signature": "sig"}}
PLACEHOLDER = {"google": {"thought_signature": "skip_thought_signature_validator"}}


def turn(*ids: str, **fields: Any) -> Json:
    calls = [
        {"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def write(*messages: Json, has_tools: bool = True, **settings: Any) -> list[Json]:
    target = Target("theirs", provider_tag=TAG, **settings)
    return write_history([*messages], target, has_tools=has_tools)


def carried(state: object, tag: str = TAG, reasoning: str = "") -> Json:
    return {STATE: {"sealed": [seal(state, tag)], "reasoning": [reasoning]}}


def test_what_has_nothing_to_bring_back_is_the_same_object() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        turn("call_1"),
        {"role": "assistant", "content": ""},
    ]
    written = write(*messages)
    assert all(ours is given for ours, given in zip(written, messages, strict=True))


def test_a_signature_comes_back_at_its_call() -> None:
    """Also two turns later, and without the member that carried it."""
    state = {"details": [], "calls": {"b": SIGNED}}
    [written] = write(turn("a", "b", **carried(state)))
    assert [one.get("extra_content") for one in written["tool_calls"]] == [None, SIGNED]
    assert STATE not in written
    [foreign] = write(turn("a", "b", **carried(state, OTHER)))
    assert foreign == turn("a", "b")


def test_a_call_that_gemini_did_not_make_gets_its_placeholder() -> None:
    """The first of parallel calls alone; what the caller itself brings back stays."""
    takes = frozenset({"thought_signature"})
    [written] = write(turn("a", "b"), takes=takes)
    assert [one.get("extra_content") for one in written["tool_calls"]] == [PLACEHOLDER, None]
    own = turn("a")
    own["tool_calls"][0]["extra_content"] = SIGNED
    assert write(own, takes=takes) == [own]
    state = {"calls": {"a": SIGNED}}
    [again] = write(turn("a", **carried(state)), takes=takes)
    assert again["tool_calls"][0]["extra_content"] == SIGNED


def test_reasoning_comes_back_where_it_is_wanted() -> None:
    takes = frozenset({"reasoning_content"})
    said = {"role": "assistant", "content": "Hi", **carried(None, OTHER, "Hm.")}
    plain = {"role": "assistant", "content": "Hi"}
    assert write(said) == [plain]
    assert write(said, takes=takes, has_tools=False) == [plain]
    assert write(said, plain, takes=takes) == [
        {**plain, "reasoning_content": "Hm."},
        {**plain, "reasoning_content": " "},
    ]
    own = {**plain, "reasoning_content": "Mine."}
    assert write(own, takes=takes) == [own]


def test_details_come_back_whole() -> None:
    first = [
        {"type": "reasoning.text", "index": 0, "text": "a", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "b"},
        {"type": "reasoning.encrypted", "index": 1, "id": "a", "data": "x"},
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
        {"type": "reasoning.encrypted", "index": 1, "id": "a", "data": "x"},
        {"type": "reasoning.encrypted", "index": 1, "id": "b", "data": "y"},
        {"type": "reasoning.summary", "summary": "s"},
    ]


def test_details_of_two_turns_stay_two() -> None:
    """Two signed texts with one index are no fragments of each other."""
    signed = [{"type": "reasoning.text", "index": 0, "text": one, "signature": one} for one in "ab"]
    sealed = [seal({"details": [one]}, TAG) for one in signed]
    [written] = write({"role": "assistant", "content": "", STATE: {"sealed": sealed}})
    assert written["reasoning_details"] == signed


def test_a_seal_behind_an_id_is_cut_off_wherever_it_goes() -> None:
    """The provider's own id goes back, in the call and in its result."""
    for tag in (TAG, OTHER):
        identity = seal_id("functions.get:0", seal([{"type": "thinking"}], tag))
        result = {"role": "tool", "tool_call_id": identity, "content": ""}
        written = write(turn(identity), result)
        assert written == [turn("functions.get:0"), {**result, "tool_call_id": "functions.get:0"}]


@each_row(
    ("identity", "taken", "pattern"),
    [
        ("chatcmpl-tool-" + "0" * 32, "any", "chatcmpl-tool-0+"),
        ("chatcmpl-tool-" + "0" * 32, "openai", "[0-9a-f]{40}"),
        ("call_1", "openai", "call_1"),
        ("call_1", "mistral", "[0-9a-f]{9}"),
        ("D681PevKs", "mistral", "D681PevKs"),
    ],
)
def test_ids_of_others_are_written_as_the_upstream_takes_them(
    identity: str, taken: Any, pattern: str
) -> None:
    result = {"role": "tool", "tool_call_id": identity, "content": ""}
    [asked, answered] = write(turn(identity), result, history=taken)
    assert re.fullmatch(pattern, asked["tool_calls"][0]["id"])
    assert answered["tool_call_id"] == asked["tool_calls"][0]["id"]


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
