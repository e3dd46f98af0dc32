"""Repaired chunks, at random: the rules are kept and nothing is lost. `heard.txt` has each repair."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.chunks import ChunkRepair
from tests.dialects.chat.kit import check_stream, choice, chunk, make_context, role, stop
from tests.support.accumulated import accumulate
from tests.support.fuzz import fuzz

Json = dict[str, Any]


def repair(*chunks: Json) -> list[Json]:
    """Return the chunks as they are sent; check that the originals stay unchanged."""
    state = ChunkRepair(make_context())
    out: list[Json] = []
    for one in chunks:
        before = copy.deepcopy(one)
        repaired = state.repair(one)
        assert one == before
        out += [one] if repaired is None else repaired
    return out


def test_an_empty_finish_reason_ends_nothing() -> None:
    """Some providers write it where others write null."""
    empty = chunk(choice({"content": "a"}, ""))
    assert repair(chunk(role()), empty, chunk(stop())) == [chunk(role()), empty, chunk(stop())]


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
        assert (after.text, after.reasoning) == (before.text, before.reasoning)
        finish = "tool_calls" if after.tool_calls else "stop"
        assert after.finish_reason == (before.finish_reason and finish)
        assert sum(len(c.arguments) for c in after.tool_calls.values()) == sum(
            len(c.arguments) for c in before.tool_calls.values()
        )
    assert repair(*json.loads(json.dumps(out))) == out
