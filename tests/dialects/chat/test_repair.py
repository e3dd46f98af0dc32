"""The repair table, one case per row. Conforming chunks give None and pass unchanged."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.repair import ChunkRepair
from tests.dialects.chat.kit import check_stream, choice, chunk, role, stop, text
from tests.support.fuzz import fuzz
from tests.support.rows import each_row
from tests.support.said import accumulate

Json = dict[str, Any]
ASSISTANT = {"role": "assistant", "content": ""}
FRAGMENT = {"function": {"arguments": "1"}}


def named(identity: str, **fields: Any) -> Json:
    return {"id": identity, "function": {"name": "f", "arguments": ""}, **fields}


def tools(*calls: Json, finish: str | None = None) -> Json:
    return choice({"tool_calls": list(calls)}, finish)


def repair(*chunks: Json) -> list[Json]:
    """Return the chunks as they are sent; check that the originals stay unchanged."""
    state = ChunkRepair()
    out: list[Json] = []
    for one in chunks:
        before = copy.deepcopy(one)
        repaired = state.repair(one)
        assert one == before
        out += [one] if repaired is None else repaired
    return out


def deltas(*choices: Json) -> list[tuple[Any, Any]]:
    return [
        (one["delta"], one.get("finish_reason"))
        for each in repair(*(chunk(one) for one in choices))
        for one in each["choices"]
    ]


def test_a_conforming_stream_is_not_touched() -> None:
    state = ChunkRepair()
    stream = [
        chunk(role()),
        chunk(role(1)),
        chunk(text("a")),
        chunk(text("b", 1), text("c")),
        chunk(tools({"index": 0, "type": "function", **named("x")})),
        chunk(tools({"index": 0, **FRAGMENT})),
        chunk(choice({"reasoning_content": "r", "content": None})),
        chunk(stop(finish="tool_calls")),
        chunk(stop(1, "content_filter")),
        chunk(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
    ]
    assert [state.repair(one) for one in stream] == [None] * len(stream)
    assert (state.started, state.finished) == ({0, 1}, {0, 1})


@each_row("wrong", [None, "", "chat.completion.done", "chat.completion", 7])
def test_object_missing_or_other(wrong: object) -> None:
    broken = chunk(role(), object=wrong)
    assert repair(broken) == [chunk(role())]
    del broken["object"]
    assert repair(broken) == [chunk(role())]


BEGUN: Final = (ASSISTANT, None)
CALL: Final = {"index": 0, "type": "function", **named("x")}
AGAIN: Final = choice({"role": "assistant", "content": "a"})
MORE: Final = {"role": "assistant", "content": "", "refusal": None, "reasoning_content": ""}


@each_row(
    ("choices", "expected"),
    [
        # A first chunk without role or content gets them; what else it holds is kept.
        *([[choice(first)], [BEGUN]] for first in (
            {"role": "assistant"}, {"role": "assistant", "content": None}, {"content": ""}, {"content": None},
            {}, None, {"role": "model", "content": ""}, {"role": None, "content": ""})),
        ([choice({**MORE, "content": None})], [(MORE, None)]),
        # One merged with what follows is split.
        *([[choice({**head, **rest})], [BEGUN, (rest, None)]] for head, rest in (
            ({"role": "assistant"}, {"content": "a"}),
            ({}, {"content": "a"}),
            ({"role": "assistant"}, {"reasoning_content": "r"}),
            ({"role": "assistant", "content": None}, {"reasoning": "r"}),
            ({"role": "assistant", "content": ""}, {"refusal": "no"}),
            ({"role": "assistant", "content": None}, {"tool_calls": [CALL]}))),
        # Later chunks have no role.
        ([role(), AGAIN, AGAIN], [BEGUN, ({"content": "a"}, None), ({"content": "a"}, None)]),
        # The last has the finish reason alone.
        *([[role(), choice(last, "stop")], [BEGUN, ({}, "stop")]]
          for last in ({"content": ""}, {"content": None}, {"role": "assistant"}, None)),
        *([[role(), choice({**said, "role": "assistant"}, "length")], [BEGUN, (said, None), ({}, "length")]]
          for said in ({"content": "a"}, {"reasoning": "r"}, {"refusal": "no"})),
        ([role(), choice({"content": None, "tool_calls": [CALL]}, "tool_calls")],
         [BEGUN, ({"tool_calls": [CALL]}, None), ({}, "tool_calls")]),
        # A stream in one chunk is split in three.
        ([choice({"role": "assistant", "content": "a"}, "stop")], [BEGUN, ({"content": "a"}, None), ({}, "stop")]),
        ([choice({}, "stop")], [BEGUN, ({}, "stop")]),
        # Some providers write an empty finish reason where others write null.
        ([role(), choice({"content": "a"}, ""), stop()], [BEGUN, ({"content": "a"}, ""), ({}, "stop")]),
        # A delta that is no object becomes one.
        ([role(), choice(None), {"index": 0}], [BEGUN, ({}, None), ({}, None)]),
    ],
)  # fmt: skip
def test_a_choice_begins_with_its_role_and_ends_with_its_reason(
    choices: list[Json], expected: list[Any]
) -> None:
    assert deltas(*choices) == expected


def test_usage_goes_with_the_last_of_split_chunks() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    out = repair(chunk(choice({"content": "a"}, "stop"), usage=usage))
    assert [one["usage"] for one in out] == [None, None, usage]


def test_logprobs_stay_with_their_content() -> None:
    logprobs = {"content": [{"token": "a"}]}
    merged = choice({"content": "a"}, "stop", logprobs=logprobs)
    out = [one for each in repair(chunk(role()), chunk(merged)) for one in each["choices"]]
    assert [one.get("logprobs") for one in out[1:]] == [logprobs, None]


def test_tool_calls_get_index_and_type() -> None:
    out = deltas(role(), tools(named("a"), named("b")))
    assert out[1][0]["tool_calls"] == [
        {"index": 0, "type": "function", **named("a")},
        {"index": 1, "type": "function", **named("b")},
    ]


def test_fragments_without_index_continue_the_latest_call() -> None:
    stream = [tools(named("a")), tools(FRAGMENT), tools(named("b")), tools(FRAGMENT)]
    calls = [one["tool_calls"][0] for one, _ in deltas(role(), *stream)[1:]]
    assert [call["index"] for call in calls] == [0, 0, 1, 1]
    assert ["type" in call for call in calls] == [True, False, True, False]


def test_fragments_without_index_that_repeat_an_id_continue_its_call() -> None:
    again = {**FRAGMENT, "id": named("a")["id"]}
    stream = [tools({"index": 0, **named("a")}), tools(named("b")), tools(again), tools(FRAGMENT)]
    calls = [one["tool_calls"][0] for one, _ in deltas(role(), *stream)[1:]]
    assert [call["index"] for call in calls] == [0, 1, 0, 0]


def test_fragments_with_an_index_are_left() -> None:
    """Qwen repeats `id:""` and the type; Anthropic's endpoint begins at 1."""
    fragment = {"index": 1, "id": "", "type": "function", "function": {"arguments": "1"}}
    first = {"index": 1, "type": "function", **named("a")}
    state = ChunkRepair()
    for one in (role(), tools(first), tools(fragment), tools({"index": 1, **FRAGMENT})):
        assert state.repair(chunk(one)) is None


def test_tool_calls_of_each_choice_are_counted_apart() -> None:
    two = [choice({"tool_calls": [named("a")]}, index=index) for index in (0, 1)]
    out = [one for each in repair(chunk(role(), role(1)), chunk(*two)) for one in each["choices"]]
    assert [one["delta"]["tool_calls"][0]["index"] for one in out[2:]] == [0, 0]


def test_usage_whose_total_is_not_the_sum() -> None:
    xai = {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 354, "more": 1}
    assert repair(chunk(usage=xai))[0]["usage"] == {**xai, "completion_tokens": 342}


def test_everything_else_is_left() -> None:
    odd: Json = {"created": "x", "model": None, "vendor": [1], "service_tier": {}, "usage": None}
    merged = choice({"content": "a", "own": 1}, "eos", native_finish_reason="x")
    out = repair(chunk(merged, **odd))
    assert all({key: one[key] for key in odd} == odd for one in out)
    assert [one["choices"][0].get("native_finish_reason") for one in out] == [None, "x", "x"]
    assert out[1]["choices"][0]["delta"] == {"content": "a", "own": 1}
    assert out[2]["choices"][0]["finish_reason"] == "eos"


def test_a_choice_without_index_goes_by_its_position() -> None:
    bare = [{"delta": {"content": said}} for said in "ab"]
    out = repair(chunk(*bare))
    assert [[one["index"] for one in each["choices"]] for each in out] == [[0, 1], [0, 1]]


def test_choices_at_different_stations_are_parted() -> None:
    """One choice begins while the other ends; each goes through its states in order."""
    out = repair(chunk(role()), chunk(choice({"content": "x"}, "stop"), text("y", 1)))
    shape = [[(one["index"], one["finish_reason"]) for one in each["choices"]] for each in out]
    assert shape == [[(0, None)], [(1, None)], [(0, None), (1, None)], [(0, "stop")]]


def test_choices_that_are_no_objects_are_dropped() -> None:
    out = repair(chunk(role()), {**chunk(), "choices": ["x", None, text("a")]})
    assert out[1]["choices"] == [text("a")]


said = st.sampled_from([None, "", "a", "é"])
calls = st.lists(
    st.fixed_dictionaries(
        {"function": st.fixed_dictionaries({"arguments": st.sampled_from(["", "1"])})},
        optional={"index": st.integers(0, 2), "id": st.sampled_from(["", "x"]), "type": said},
    ),
    max_size=2,
)
any_delta = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["assistant", "", None]),
        "content": said,
        "reasoning_content": said,
        "tool_calls": calls,
    },
)
any_choice = st.builds(choice, any_delta, st.sampled_from([None, None, "stop"]), st.integers(0, 1))


@fuzz(300)
@given(st.lists(st.lists(any_choice, min_size=1, max_size=2), max_size=6))
def test_any_stream_keeps_the_rules_and_says_the_same(stream: list[list[Json]]) -> None:
    """A choice is finished once, at the latest by its last chunk; no content is lost."""
    open_choices: set[int] = set()
    clean: list[Json] = []
    for choices in stream:
        kept = {one["index"]: one for one in choices if one["index"] not in open_choices}
        open_choices |= {index for index, one in kept.items() if one["finish_reason"]}
        if kept:
            clean.append(chunk(*kept.values(), object=None))
    out = repair(*clean)
    for one in out:
        one["model"] = "our/model"
    check_stream(out, usage=False, finished=False)
    expected = accumulate(
        [
            {**one, "choices": [{**c, "delta": c["delta"] or {}} for c in one["choices"]]}
            for one in clean
        ]
    )
    got = accumulate(out)
    for index, before in expected.choices.items():
        after = got.choices[index]
        assert (after.text, after.reasoning, after.finish_reason) == (
            before.text,
            before.reasoning,
            before.finish_reason,
        )
        assert sum(len(c.arguments) for c in after.tool_calls.values()) == sum(
            len(c.arguments) for c in before.tool_calls.values()
        )
    assert repair(*json.loads(json.dumps(out))) == out
