"""Every file of provider streams is well formed and says what it is for."""

from __future__ import annotations

from tests import streams
from tests.streams import Stream

FAILING = [*streams.FAILING, *streams.RESPONSES_FAILING]
WRITTEN = [one for one in (*streams.CHAT, *streams.MESSAGES, *streams.RESPONSES) if one.special]


@streams.each(*WRITTEN, *FAILING)
def test_file_says_what_is_special_and_what_comes_of_it(stream: Stream) -> None:
    """A complete stream has its tokens, a failing one its error."""
    assert stream.special.endswith(".")
    assert (stream.tokens is None) == (stream in FAILING)
    assert (stream.error is None) == (stream not in FAILING)


@streams.each(*WRITTEN, *FAILING)
def test_body_is_whole_blocks_of_json(stream: Stream) -> None:
    assert b"".join(stream.blocks) == stream.body
    assert b"\r" not in stream.body
    assert all(isinstance(one, dict) for one in stream.objects)


def test_names_are_unique() -> None:
    every = [one.name for one in (*WRITTEN, *FAILING)]
    assert len(set(every)) == len(every)
