"""Elements are counted without parsing, in steps."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.wire import elements
from gateway.dialects.wire.elements import count_marks, has_more_elements


def test_marks_are_commas_and_opening_brackets() -> None:
    assert count_marks(b'{"a":[1,2,{}]} ,') == 6


@pytest.mark.parametrize("most", [0, 1, 2, 7])
@pytest.mark.parametrize("text", ["\\" * 9, '"' * 9, '\\"', 'a\\" , [', "\\"])
def test_a_string_ends_where_it_ends_whatever_its_escapes(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps in which a long string is read may end within an escape."""
    data = json.dumps([text, text]).encode()  # two strings, a bracket and a comma
    for step in (2, 3, 4, 1 << 18):
        monkeypatch.setattr(elements, "STEP_BYTES", step)
        assert has_more_elements(data, most) == (most < 4)
