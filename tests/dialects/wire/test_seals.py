"""Seals around what a provider wants back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import BadRequest
from gateway.dialects.wire.bounds import limit_elements, refuse_elements
from gateway.dialects.wire.jsonbytes import dumps_lenient, maybe_loads
from gateway.dialects.wire.seals import (
    is_ours,
    join_seals,
    open_seals,
    seal,
    seal_id,
    split_id,
    tag_provider,
)
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

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
        None, 7, "", "sig", TAG, TAG + "gAAAAopaque", TAG + "~%%%", TAG + "~é", TAG + "~" + "A",
        seal([[]] * 5000, TAG), seal("x", TAG)[:-3] + "\ud800",
    ],
)  # fmt: skip
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
