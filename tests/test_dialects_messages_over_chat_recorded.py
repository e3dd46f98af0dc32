"""Recorded chat streams of real providers for a messages caller: nothing said is lost, at any cut."""

from __future__ import annotations

import copy
import json
import random

import pytest
from chat_kit import DONE, each_byte, play, random_slices
from messages_over_chat_kit import (
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
from support import recorded

pytestmark = pytest.mark.skipif(
    not recorded.FOLDER.is_dir(), reason="the recorded streams (../shared/streams) are not here"
)
SHORT_BYTES = 6000
"""Up to here every split point is tried; a longer one is cut at random."""
SLICINGS = 200
STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def body_of(name: str) -> bytes:
    return b"".join(b"data: " + line + b"\n\n" for line in recorded.load_lines(name)) + DONE


@pytest.mark.parametrize("name", recorded.NAMES)
def test_accumulated_message_equals_the_recording(name: str) -> None:
    said = recorded.accumulate(recorded.load(name))
    played = play_whole(body_of(name))
    message = read_message(played)
    choice = said.choices[0]
    assert (text_of(message), thinking_of(message)) == (choice.text, choice.reasoning)
    assert tools_of(message) == [
        (call.id, call.name, json.loads(call.arguments)) for call in choice.tool_calls.values()
    ]
    assert message.stop_reason == STOP_REASONS[choice.finish_reason or ""]
    assert said.usage is not None
    prompt, output, _ = said.usage
    usage = message.usage
    assert usage.cache_read_input_tokens == said.cached_tokens
    assert usage.input_tokens + said.cached_tokens == prompt
    assert usage.output_tokens == output
    assert not played.estimated
    tokens = played.tokens
    assert (tokens.input, tokens.cached_input) == (prompt - said.cached_tokens, said.cached_tokens)
    assert (tokens.cache_write, tokens.output) == (0, output)


@pytest.mark.parametrize("name", recorded.NAMES)
def test_every_slicing_gives_the_same_bytes(name: str) -> None:
    data = body_of(name)
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


@pytest.mark.parametrize("name", recorded.NAMES)
def test_cut_at_any_event_it_is_not_complete(name: str) -> None:
    """Before the finish reason a clean end is a cut; a broken connection always is."""
    pipeline = open_stream()
    out = b""
    for line in recorded.load_lines(name):
        out += pipeline.feed(b"data: " + line + b"\n\n")
        assert not pipeline.complete
        assert b"event: message_delta" not in out
        if not pipeline.finished:
            ended = copy.deepcopy(pipeline)
            ended.end()
            assert not ended.complete
    check_events(read_events(out), complete=False)
    assert STOP_EVENT not in out
    pipeline.feed(DONE)
    assert pipeline.complete
