"""Chat streams as messages streams: what is held, and what comes back. `heard.txt` has the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.messages.over_chat_reply import MessageWriter
from gateway.errors import UndeliverableReply
from tests.dialects.chat.kit import choice, chunk, event, events, role, text
from tests.dialects.messages_over_chat.kit import (
    begin,
    fragment,
    make_context,
    open_stream,
    starts_of,
)


def test_calls_too_large_to_hold_are_a_failure() -> None:
    pipeline = open_stream()
    pipeline.feed(events(*(chunk(one) for one in (role(), begin(0), begin(1)))))
    large = event(chunk(fragment(1, "x" * (1 << 20))))
    for _ in range(8):
        pipeline.feed(large)
    pipeline.feed(large)
    assert pipeline.failure is None  # the rest is read for its usage
    pipeline.end()
    assert isinstance(pipeline.failure, UndeliverableReply)


def test_what_a_stream_holds_is_bounded() -> None:
    """8 Mi characters of a stream's text and arguments are held, and not one more."""
    held = "[" + " " * ((8 << 20) - 1)
    for first, last in ((begin(0, held), fragment(0, "]")), (text(held), text("a"))):
        writer = MessageWriter(make_context())
        writer.write({"choices": [first]})
        with pytest.raises(UndeliverableReply, match="too large"):
            writer.write({"choices": [last]})


def test_what_comes_back_stands_before_the_text_and_never_ends_an_answer() -> None:
    """Claude Code takes a last block of thinking for the whole answer."""
    writer = MessageWriter(replace(make_context(), provider_tag="gw1.00000000."))
    details = choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
    for choices, kinds in (
        ([details, text("Hi"), details], ["thinking", "text"]),
        ([begin(0, "{}"), details], ["thinking", "tool_use", "thinking"]),
    ):
        writer.write({"choices": choices})
        writer.flush()
        assert starts_of(writer.take()) == kinds
