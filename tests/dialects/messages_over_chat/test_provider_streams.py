"""Providers' chat streams for a messages caller: no content is lost, in any slicing or cut."""

from __future__ import annotations

import json
import random

import pytest

from tests import streams
from tests.dialects.chat.kit import DONE, copy_pipeline, each_byte, play, random_slices
from tests.dialects.messages_over_chat.kit import (
    STOP_EVENT,
    check_events,
    open_stream,
    play_whole,
    read_events,
    read_message,
    text_of,
    thinking_of,
    tools_of,
)
from tests.streams import Stream
from tests.support.said import accumulate

SHORT_BYTES = 6000
"""Up to this length every split point is tried; longer streams are cut at random."""
SLICINGS = 50
STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


@streams.each(*streams.CHAT)
def test_accumulated_message_equals_the_stream(stream: Stream) -> None:
    said = accumulate(stream.objects)
    played = play_whole(stream.body)
    message = read_message(played)
    choice = said.choices[0]
    text = choice.text + choice.refusal
    assert (text_of(message), thinking_of(message)) == (text, choice.reasoning)
    assert tools_of(message) == [
        (call.id, call.name, json.loads(call.arguments)) for call in choice.tool_calls.values()
    ]
    reason = "refusal" if choice.refusal else STOP_REASONS[choice.finish_reason or ""]
    assert message.stop_reason == reason
    assert said.usage is not None
    prompt, output, _ = said.usage
    cached, written = said.cached_tokens, said.written_tokens
    usage = message.usage
    assert usage.cache_read_input_tokens == cached
    assert usage.cache_creation_input_tokens == written
    assert usage.input_tokens + cached + written == prompt
    assert usage.output_tokens == output
    assert not played.estimated
    tokens = played.tokens
    assert (tokens.input, tokens.cached_input) == (prompt - cached - written, cached)
    assert (tokens.cache_write, tokens.output) == (written, output)
    assert tokens == (stream.tokens or tokens)


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
        assert b"event: message_delta" not in out
        if not pipeline.finished:
            ended = copy_pipeline(pipeline)
            ended.end()
            assert not ended.complete
    check_events(read_events(out), complete=False)
    assert STOP_EVENT not in out
    pipeline.feed(DONE)
    assert pipeline.complete
