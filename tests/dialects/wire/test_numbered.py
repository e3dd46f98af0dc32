"""Numbered items of streams, and seals around what a provider wants back."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import BadRequest
from gateway.dialects.wire.jsonbytes import (
    dumps_lenient,
    limit_elements,
    maybe_loads,
    refuse_elements,
)
from gateway.dialects.wire.seals import (
    is_ours,
    join_seals,
    open_seals,
    seal,
    seal_id,
    split_id,
    tag_provider,
)
from gateway.dialects.wire.templates import Template, maybe_learn_numbered
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

FIELDS: Final[dict[str, Any]] = {"delta": "Hi", "sequence_number": 7, "obfuscation": "abc"}


def block(**fields: Any) -> bytes:
    return write(fields, (",", ":"))


def write(fields: dict[str, Any], separators: tuple[str, str]) -> bytes:
    body = json.dumps({"type": "x.delta", **fields}, separators=separators, ensure_ascii=False)
    return b"event: x.delta\ndata: %b\n\n" % body.encode("utf-8", "surrogatepass")


def learn(data: bytes) -> Template:
    template = maybe_learn_numbered(data, json.loads(data.partition(b"data: ")[2]))
    assert template is not None
    return template


@each_row("separators", [(",", ":"), (", ", ": ")])
@each_row("order", [*permutations([*FIELDS, "item_id"])])
def test_events_pass_whatever_the_order_of_their_holes(
    order: tuple[str, ...], separators: tuple[str, str]
) -> None:
    fields = {**FIELDS, "item_id": "msg_1"}

    def make(text: str, number: int, noise: str) -> bytes:
        told = {**fields, "delta": text, "sequence_number": number, "obfuscation": noise}
        return write({key: told[key] for key in order}, separators)

    template = learn(make("Hi", 7, "abc"))
    events = [make(f'ü"{"x" * at}', 9 + at, "y" * at) for at in range(5)]
    sizes = [3 + at for at in range(5)]
    for event, size in zip(events, sizes, strict=True):
        assert template.maybe_pass_whole(event) == (event, size)
    data, out = b"".join(events), list[bytes]()
    assert template.pass_run(b"??" + data, 2, out) == (len(data) + 2, sum(sizes))
    assert (b"".join(out), template.read_number()) == (data, 13)
    out.clear()
    end, text_bytes = template.pass_many(data, 0, out)
    assert (end, text_bytes) == (len(data) - len(events[-1]), sum(sizes[:-1]))
    assert (b"".join(out), template.read_number()) == (data[:end], 12)


@each_row("missing", ["sequence_number", "obfuscation"])
def test_a_number_and_padding_may_be_missing(missing: str) -> None:
    fields = {key: value for key, value in FIELDS.items() if key != missing}
    template, event = learn(block(**fields)), block(**{**fields, "delta": "other"})
    assert template.maybe_pass_whole(event) == (event, 5)
    assert template.read_number() == (-1 if missing == "sequence_number" else 7)


@each_row(
    "other",
    [
        block(**FIELDS, more=1),
        block(**{**FIELDS, "sequence_number": "7"}),
        block(**{**FIELDS, "sequence_number": -7}),
        block(**{**FIELDS, "sequence_number": 7.5}),
        block(**{**FIELDS, "delta": None}),
        block(**FIELDS).replace(b":7,", b":07,"),
        block(**FIELDS).replace(b"x.delta", b"y.delta"),
        block(**FIELDS).replace(b"\n\n", b"\n"),
        block(**FIELDS).replace(b"Hi", b"\\x"),
        block(**FIELDS).replace(b"Hi", b"a\nb"),
        block(**FIELDS)[:-1],
    ],
)
def test_events_of_another_shape_do_not_pass(other: bytes) -> None:
    template = learn(block(**FIELDS, item_id="m"))
    template = learn(block(**FIELDS)) if b"item_id" not in other else template
    assert template.maybe_pass_whole(other) is None
    out: list[bytes] = []
    assert template.pass_run(other + block(**FIELDS), 0, out)[0] == 0
    run = block(**FIELDS) + other + block(**FIELDS)
    end, _ = template.pass_many(run + block(**FIELDS), 0, out)
    assert end in (0, len(block(**FIELDS)))


@each_row(
    "taught",
    [
        block(sequence_number=7),
        block(delta=5),
        block(delta="a", inner={"delta": "b"}),
        block(inner={"delta": "b"}),
        block(delta="a", inner={"sequence_number": 5}),
        block(delta="a").replace(b'{"type"', b'{"delta":"b","type"'),
    ],
)
def test_what_cannot_be_proven_is_not_learned(taught: bytes) -> None:
    body = json.loads(taught.partition(b"data: ")[2])
    assert maybe_learn_numbered(taught, body) is None


def test_members_within_the_text_are_text() -> None:
    said = json.dumps({"delta": "x", "sequence_number": 1})
    template = learn(block(**{**FIELDS, "delta": said}))
    event = block(**{**FIELDS, "delta": said * 2, "sequence_number": 11})
    assert template.maybe_pass_whole(event) == (event, 2 * len(said))
    assert template.read_number() == 11


TAG = tag_provider("alpha", "https://alpha.example/v1")
OTHER = tag_provider("beta", "https://alpha.example/v1")


@fuzz(80)
@given(json_values, st.text(max_size=40))
def test_a_state_comes_back_and_an_id_is_cut_back(state: Any, identity: str) -> None:
    sealed = seal(state, TAG)
    again = maybe_loads(dumps_lenient(state))
    assert open_seals(sealed, TAG) == ([] if again is None else [again])
    assert is_ours(sealed, TAG)
    carried = seal_id(identity, sealed)
    assert carried.startswith(identity)
    assert set(carried[len(identity) :]) <= set(
        "-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    )
    assert split_id(carried) == (identity, sealed)


def test_only_the_provider_that_made_it_opens_a_seal() -> None:
    sealed = join_seals([seal(1, TAG), "", seal(2, OTHER), seal([3], TAG)])
    assert open_seals(sealed, TAG) == [1, [3]]
    assert open_seals(sealed, OTHER) == [2]
    assert open_seals(sealed, "") == []
    assert (seal(1, ""), seal_id("call_1", "")) == ("", "call_1")


@each_row(
    "sealed",
    [
        None,
        7,
        "",
        "sig",
        TAG,
        TAG + "gAAAAopaque",
        TAG + "~%%%",
        TAG + "~é",
        TAG + "~" + "A",
        seal([[]] * 5000, TAG),
        seal("x", TAG)[:-3] + "\ud800",
    ],
)
def test_what_is_no_state_opens_to_nothing(sealed: object) -> None:
    """Nobody's conversation ends by it, and tiny values in bulk are no state."""
    assert open_seals(sealed, TAG) == []


def test_the_values_of_states_count_like_those_of_their_request() -> None:
    sealed = seal([0] * 100, TAG)
    with limit_elements(150, refuse_elements):
        assert open_seals(sealed, TAG) == [[0] * 100]
        with pytest.raises(BadRequest):
            open_seals(sealed, TAG)


@each_row("identity", ["", "call_1", "functions.get:0", "a-gw1-b", "-gw1-0-", "ö"])
def test_an_id_without_a_seal_stays(identity: str) -> None:
    assert split_id(identity) == (identity, "")


def test_an_id_full_of_marks_takes_no_time() -> None:
    """A search for the last mark at each of them would take minutes."""
    assert split_id("x" + "-gw1-00000000-a" * 100_000 + "!")[1] == ""
