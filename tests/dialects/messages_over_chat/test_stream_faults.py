"""Chat streams that fail, break off, are too large or are no streams; and every slicing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.wire.stream import MAX_TRANSLATED_EVENT_BYTES
from gateway.errors import UndeliverableReply
from tests.dialects.chat.kit import (
    DONE,
    choice,
    chunk,
    each_byte,
    event,
    events,
    make_dice,
    play,
    random_slices,
    role,
    stop,
    text,
)
from tests.dialects.messages_over_chat.kit import (
    AZURE,
    INTERLEAVED,
    STOP_EVENT,
    accumulate,
    begin,
    check_events,
    fragment,
    open_stream,
    play_whole,
    read_events,
    read_message,
    stream,
)
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

PARTIAL = events(chunk(role()), chunk(text("a")))


@each_row(
    ("data", "words"),
    [
        (event({"error": {"message": "said upstream"}}), "said upstream"),
        (b'event: error\ndata: {"message":"said upstream"}\n\n', "said upstream"),
        (event({"object": "error", "message": "said upstream"}) + DONE, "said upstream"),
        (event({"error": {}, "object": "error"}), "error"),
        (b"data: <html>\n\n", "not JSON"),
        (b"data: [1]\n\n", "not JSON"),
        (event(chunk(choice({}, "error"))), "error"),
        (event(chunk(fragment(0, "{}"), choice({}, "stop"))), "naming"),
        (events(*(chunk(one) for one in (begin(0, "{}"), begin(1), fragment(0, "x")))), "complete"),
    ],
)
def test_failures(data: bytes, words: str) -> None:
    played = play_whole(PARTIAL + data + DONE)
    assert not played.complete
    assert played.failure is not None
    assert words in played.failure
    check_events(read_events(played.out), complete=False)


@each_row("data", [DONE, b": hello\n\n" + DONE, event(AZURE) + DONE])
def test_end_before_the_beginning_is_a_failure(data: bytes) -> None:
    played = play_whole(data)
    assert played.failure == "The upstream's stream ended before it began."


def test_event_too_large_to_hold_is_a_failure() -> None:
    piece = b"x" * (MAX_TRANSLATED_EVENT_BYTES // 4)
    pipeline = open_stream()
    pipeline.feed(b'data: {"')
    for _ in range(3):
        pipeline.feed(piece)
    assert pipeline.failure is None
    pipeline.feed(piece)
    assert pipeline.failure is not None


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


WHOLE = stream(
    choice({"reasoning_content": "hm"}), text("a"), *INTERLEAVED, finish="tool_calls"
)  # fmt: skip


def test_a_cut_is_never_complete() -> None:
    """For a cut after any event but the last two, no end is added, and the rules are kept."""
    blocks = [block + b"\n\n" for block in WHOLE.split(b"\n\n")[:-1]]
    for count in range(len(blocks) - 2):  # with the finish reason a clean end is an end
        played = play_whole(b"".join(blocks[:count]))
        assert (played.complete, played.failure) == (False, None)
        assert STOP_EVENT not in played.out
        assert b"message_delta" not in played.out
        check_events(read_events(played.out), complete=False)


def test_a_clean_end_without_done_is_an_end_once_the_choice_finished() -> None:
    played = play_whole(WHOLE.removesuffix(DONE))
    assert read_message(played) == read_message(play_whole(WHOLE))


def test_a_cut_within_the_last_event_is_not_an_end() -> None:
    finished = events(chunk(role()), chunk(text("a")), chunk(stop()))
    for cut in range(finished.rindex(b"data:") + 1, len(finished) - 4):
        played = play_whole(finished[:cut])
        assert (played.complete, played.failure) == (False, None)


@pytest.mark.no_cover
def test_every_split_point_gives_the_same() -> None:
    expected = play_whole(WHOLE)
    for cut in range(1, len(WHOLE), 7):
        assert play(open_stream(), [WHOLE[:cut], WHOLE[cut:]]) == expected
    assert play(open_stream(), each_byte(WHOLE)) == expected


@fuzz(150)
@given(st.data())
def test_no_bytes_are_so_odd_that_the_pipeline_breaks(data: st.DataObject) -> None:
    """A mangled stream ends in a failure, or its output keeps the rules."""
    dice = data.draw(st.randoms(use_true_random=False))
    mangled = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = dice.randrange(len(mangled))
        mangled[at : at + dice.choice((0, 1, 9))] = dice.choice(MISHAPS)
    played = play(open_stream(), random_slices(bytes(mangled), dice))
    found = read_events(played.out)
    if not played.complete or played.failure:
        check_events(found, complete=False)
    else:
        check_events(found)


MISHAPS = (b"", b"\n", b"\n\n", b"null", b'"', b"{}", b"[]", b"7", b"\xff", b"\r", b"data: ", b":")


def test_seeded_slicings_agree() -> None:
    dice = make_dice()
    expected = accumulate(read_events(play_whole(WHOLE).out))
    for _ in range(50):
        played = play(open_stream(), random_slices(WHOLE, dice))
        assert accumulate(read_events(played.out)) == expected
