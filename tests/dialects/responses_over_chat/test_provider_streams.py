"""Providers' chat streams for a Responses caller: no content is lost, in any slicing or cut."""

from __future__ import annotations

import random

import pytest

from tests import streams
from tests.dialects.chat.kit import DONE, copy_pipeline, each_byte, play, random_slices
from tests.dialects.responses_over_chat.kit import (
    check_events,
    items_of,
    open_stream,
    play_whole,
    read_events,
    read_response,
)
from tests.streams import Stream
from tests.support.said import accumulate

SHORT_BYTES = 6000
"""Up to this length every split point is tried; longer streams are cut at random."""
SLICINGS = 50
REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


@streams.each(*streams.CHAT)
def test_accumulated_response_equals_the_stream(stream: Stream) -> None:
    said = accumulate(stream.objects)
    played = play_whole(stream.body)
    response = read_response(played)
    choice = said.choices[0]
    items = items_of(response)

    def join(kind: str) -> str:
        return "".join(item[1] for item in items if item[0] == kind)

    assert (join("output_text"), join("refusal")) == (choice.text, choice.refusal)
    assert join("reasoning") == choice.reasoning
    assert [item[1:] for item in items if item[0] == "function_call"] == [
        (call.id, "", call.name, call.arguments or "{}") for call in choice.tool_calls.values()
    ]
    reason = REASONS.get(choice.finish_reason or "")
    assert response["incomplete_details"] == ({"reason": reason} if reason else None)
    assert said.usage is not None
    prompt, output, _ = said.usage
    usage = response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (prompt, output)
    assert usage["input_tokens_details"] == {
        "cached_tokens": said.cached_tokens,
        "cache_write_tokens": said.written_tokens,
    }
    assert usage["total_tokens"] == prompt + output
    assert not played.estimated
    assert played.tokens == (stream.tokens or played.tokens)


@pytest.mark.no_cover
@streams.each(*streams.CHAT)
def test_every_slicing_gives_the_same_bytes(stream: Stream) -> None:
    data = stream.body
    expected = play_whole(data)
    if len(data) <= SHORT_BYTES:
        for cut in range(1, len(data)):
            assert play(open_stream(), [data[:cut], data[cut:]]) == expected
        assert play(open_stream(), each_byte(data)) == expected
        return
    seed = random.randrange(2**32)
    print("seed:", seed)
    dice = random.Random(seed)
    for _ in range(SLICINGS):
        assert play(open_stream(), random_slices(data, dice)) == expected


@streams.each(*streams.CHAT)
def test_cut_at_any_event_it_is_not_complete(stream: Stream) -> None:
    """Before the finish reason a clean end is a cut; a broken connection always is."""
    pipeline = open_stream()
    out = b""
    *blocks, done = stream.blocks
    assert done == DONE
    for block in blocks:
        out += pipeline.feed(block)
        assert not pipeline.complete
        if not pipeline.finished:
            ended = copy_pipeline(pipeline)
            ended.end()
            assert not ended.complete
    check_events(read_events(out), complete=False)
    pipeline.feed(DONE)
    assert pipeline.complete
