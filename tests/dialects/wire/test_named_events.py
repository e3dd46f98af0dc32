"""Events with the name of their type."""

from __future__ import annotations

import pytest

from gateway.dialects.wire import is_canonical, render_event
from gateway.dialects.wire.sse import parse_event


def test_an_event_is_written_with_its_name() -> None:
    block = render_event({"type": "a.b", "x": "ü\ud800"})
    assert block == b'event: a.b\ndata: {"type":"a.b","x":"\\u00fc\\ud800"}\n\n'
    assert is_canonical(block, parse_event(block), "a.b")


@pytest.mark.parametrize(
    "block",
    [
        b"data: {}\n\n",
        b"event: a\ndata: {}\nid: 1\n\n",
        b"event: b\ndata: {}\n\n",
        b": c\nevent: a\ndata: {}\n\n",
    ],
)
def test_other_lines_make_an_event_uncommon(block: bytes) -> None:
    assert not is_canonical(block, parse_event(block), "a")
