"""A request has at most so many texts; `examples.txt` has how they are read."""

from __future__ import annotations

import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import Inputs
from gateway.extras.services.inputs import read_inputs

MAX_INPUTS = 2048


def test_texts_are_no_more_than_so_many() -> None:
    """An array of tokens is one of them."""
    assert read_inputs("input", ["a"] * MAX_INPUTS) == Inputs(MAX_INPUTS, MAX_INPUTS)
    assert read_inputs("input", [1] * (MAX_INPUTS + 1)) == Inputs(1, MAX_INPUTS + 1)
    with pytest.raises(BadRequest, match="array too long") as refused:
        read_inputs("input", ["a"] * (MAX_INPUTS + 1))
    assert (refused.value.param, refused.value.code) == ("input", "array_above_max_length")
