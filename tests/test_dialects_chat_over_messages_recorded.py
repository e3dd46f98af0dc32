"""Recorded messages streams as chat chunks: whole, sliced and cut."""

from __future__ import annotations

import json

import pytest
from chat_kit import MODEL, Played, check_stream, each_byte, make_dice, play, random_slices
from chat_over_messages_kit import (
    CREATED,
    FOLDER,
    RECORDINGS,
    load_frames,
    load_lines,
    open_stream,
    read_told,
)
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk, ParsedChatCompletion

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the recorded streams (../shared/streams) are not here"
)


def accumulate(played: Played) -> ParsedChatCompletion[None]:
    """What the caller's SDK makes of the chunks, each of which its types take."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in played.chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True))
    return state.get_final_completion()


@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
@pytest.mark.parametrize("name", RECORDINGS)
def test_recording_says_the_same_in_the_callers_sdk(name: str, *, usage: bool) -> None:
    expected = read_told(map(json.loads, load_lines(name)))
    played = play(open_stream(usage=usage), load_frames(name))
    assert (played.complete, played.failure) == (True, None)
    assert (played.tokens, played.estimated) == (expected.tokens, False)
    check_stream(played.chunks, usage=usage)
    completion = accumulate(played)
    choice = completion.choices[0]
    assert completion.model == MODEL
    assert completion.created == CREATED
    assert (choice.message.content or "") == expected.text
    assert (getattr(choice.message, "reasoning_content", None) or "") == expected.thinking
    calls = choice.message.tool_calls or []
    assert [
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in calls
    ] == expected.calls
    finishes = {"end_turn": "stop", "tool_use": "tool_calls"}
    assert choice.finish_reason == finishes[str(expected.stop_reason)]
    if usage:
        assert completion.usage is not None
        assert completion.usage.prompt_tokens == expected.tokens.input
        assert completion.usage.completion_tokens == expected.tokens.output
        assert completion.usage.total_tokens == expected.tokens.total


@pytest.mark.parametrize("name", RECORDINGS)
def test_recording_is_the_same_at_every_split_point(name: str) -> None:
    body = b"".join(load_frames(name))
    whole = play(open_stream(usage=True), [body])
    for cut in range(1, len(body)):
        assert play(open_stream(usage=True), [body[:cut], body[cut:]]) == whole, cut
    assert play(open_stream(usage=True), each_byte(body)) == whole
    assert play(open_stream(usage=True), each_byte(body.replace(b"\n", b"\r\n"))) == whole
    dice = make_dice()
    for _ in range(50):
        assert play(open_stream(usage=True), random_slices(body, dice)) == whole


@pytest.mark.parametrize("name", RECORDINGS)
def test_recording_cut_at_any_byte_is_not_complete(name: str) -> None:
    """But for a cut behind the stop reason, where only `message_stop` is missing."""
    body = b"".join(load_frames(name))
    ended = body.index(b"event: message_stop") - len(b"\n\n")
    expected = play(open_stream(), [body]).tokens
    for cut in range(len(body)):
        stream = open_stream(usage=True)
        played = play(stream, [body[:cut]])
        assert played.failure is None
        assert played.complete == (cut >= ended), cut
        if not played.complete:
            assert all(choice["finish_reason"] is None for choice in played.choices)
        elif cut < len(body):
            assert played.tokens == expected
