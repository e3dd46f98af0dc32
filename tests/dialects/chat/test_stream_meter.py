"""The charge of a chat stream, and events too long to be held."""

from __future__ import annotations

from itertools import product
from typing import Any

from gateway.base.money import Tokens
from gateway.dialects.chat.stream import ChatStream
from tests.dialects.chat.kit import (
    BEGIN,
    DONE,
    END,
    HI,
    MODEL,
    USAGE,
    WHOLE,
    choice,
    chunk,
    event,
    make_context,
    ours,
    play,
    send,
    text,
)
from tests.support.rows import each_row

MAX_EVENT_BYTES = 1 << 20

# Events beyond all measure


def big(extra: int = 200_000) -> bytes:
    """Make a content event that is longer than the limit for held events by more than a read."""
    return event(chunk(text("x" * (MAX_EVENT_BYTES + extra))))


def pieces_of(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@each_row("end", [b"\n", b"\r", b"\r\n"])
def test_an_oversized_event_passes_unedited_to_its_boundary_in_any_slicing(end: bytes) -> None:
    """The events before and after it are edited nevertheless."""
    whole = (big() + HI + END + DONE).replace(b"\n", end)
    begun, at = MAX_EVENT_BYTES + 1, len(big().replace(b"\n", end))
    expected = ours(BEGIN) + whole[:at] + ours((HI + END).replace(b"\n", end)) + DONE
    cuts = ([whole[:begun], whole[begun:cut], whole[cut:]] for cut in range(at - 6, at + 7))
    for pieces in (*cuts, *(pieces_of(whole, size) for size in (1000, 65_536, 65_537))):
        played = play(ChatStream(make_context()), [BEGIN, *pieces])
        assert (played.out, played.complete) == (expected, True), list(map(len, pieces))[-3:]
        assert (
            1600 <= played.tokens.output < 1610
        )  # as a picture: nobody streams so much text at once


def test_the_bill_at_the_end_of_an_oversized_event_is_read_and_not_shown() -> None:
    told = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}
    large = chunk(text("x" * (MAX_EVENT_BYTES + 1))) | {"usage": told | {"cost": 0.5}}
    whole, near = BEGIN + event(large) + END + DONE, MAX_EVENT_BYTES - 100
    for size, asked in product((7, 4096, 10**7), (False, True)):
        stream = ChatStream(make_context(usage=asked))
        played = play(stream, [whole[:near], *pieces_of(whole[near:], size)])
        assert b'"cost"' not in played.out
        shown = None if asked else told  # who asked gets a chunk of its own
        assert event(large | {"usage": shown}).split(b'"usage"')[1] in played.out
        assert (played.chunks[-1] == chunk(model=MODEL, usage=told)) is asked
        assert played.tokens.output == 9
        assert stream.measure().reported_cost_nano == 500_000_000


def test_an_oversized_event_is_told_while_it_passes() -> None:
    """The relay asks for this, as nothing may be inserted then."""
    stream = ChatStream(make_context())
    fed = 0
    for piece in pieces_of(big(), 65_536):
        fed += len(piece)
        stream.feed(piece)
        assert stream.mid_event == (MAX_EVENT_BYTES < fed < len(big()))
    assert stream.begun


def test_an_event_up_to_the_measure_is_held_and_edited() -> None:
    body = event(chunk(text("x" * (MAX_EVENT_BYTES - len(HI)))))
    assert len(body) < MAX_EVENT_BYTES
    assert play(
        ChatStream(make_context()), pieces_of(WHOLE[: -len(DONE)] + body, 5000)
    ).out.startswith(ours(BEGIN + HI + END + body))


def test_a_cut_in_an_oversized_event_is_never_complete() -> None:
    """Although every choice has finished, the sent bytes end in the middle of an event."""
    stream = ChatStream(make_context())
    stream.feed(BEGIN + END)
    stream.feed(big()[:-2])
    assert stream.mid_event
    stream.end()
    assert not stream.complete


# The meter


def test_after_the_end_the_report_counts_even_if_more_was_said() -> None:
    long = event(chunk(text("x" * 400)))
    reported = event(chunk(usage=USAGE))
    assert send(BEGIN + long + END + reported + DONE).tokens == Tokens(9, output=3)
    cut = play(ChatStream(make_context()), [BEGIN + long + reported])
    assert (cut.tokens, cut.estimated) == (Tokens(9, output=100), True)


@each_row("delta", [
    {"content": "12345"}, {"reasoning_content": "12345"}, {"reasoning": "12345"}, {"refusal": "12345"},
    {"content": "123", "reasoning": "45"}, {"function_call": {"arguments": "12345"}},
    {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": "12345"}}]},
])  # fmt: skip
@each_row("times", [1, 5])
def test_all_that_is_delivered_counts(delta: dict[str, Any], times: int) -> None:
    played = send(BEGIN + event(chunk(choice(delta))) * times)
    assert (played.tokens.output, played.delivered) == (-(-5 * times // 4), True)
