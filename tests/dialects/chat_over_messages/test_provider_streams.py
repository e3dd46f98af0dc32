"""Providers' messages streams as chat chunks: whole, sliced and cut."""

from __future__ import annotations

import json
from contextlib import suppress

import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk, ParsedChatCompletion

from tests import streams
from tests.dialects.chat.kit import (
    MODEL,
    Played,
    check_stream,
    each_byte,
    make_dice,
    play,
    random_slices,
)
from tests.dialects.chat_over_messages.kit import CREATED, open_stream, read_told
from tests.streams import Stream

FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def accumulate(played: Played) -> ParsedChatCompletion[object]:
    """Add up the chunks like the caller's SDK, whose types accept each of them."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in played.chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True))
    # The SDK raises for a whole reply that was cut short by a limit, or refused.
    with suppress(openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
        state.get_final_completion()
    return state.current_completion_snapshot


@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
@streams.each(*streams.MESSAGES)
def test_stream_says_the_same_in_the_callers_sdk(stream: Stream, *, usage: bool) -> None:
    expected = read_told(stream.objects)
    played = play(open_stream(usage=usage), [stream.body])
    assert (played.complete, played.failure) == (True, None)
    assert expected.tokens == (stream.tokens or expected.tokens)
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
    assert choice.message.refusal == expected.refusal
    assert choice.finish_reason == FINISHES[str(expected.stop_reason)]
    if usage:
        tokens = expected.tokens
        assert completion.usage is not None
        assert completion.usage.prompt_tokens == tokens.total - tokens.output
        assert completion.usage.completion_tokens == tokens.output
        assert completion.usage.total_tokens == tokens.total


@pytest.mark.no_cover
@streams.each(*streams.MESSAGES)
def test_stream_is_the_same_at_every_split_point(stream: Stream) -> None:
    body = stream.body
    whole = play(open_stream(usage=True), [body])
    for cut in range(1, len(body)):
        assert play(open_stream(usage=True), [body[:cut], body[cut:]]) == whole, cut
    assert play(open_stream(usage=True), each_byte(body)) == whole
    assert play(open_stream(usage=True), each_byte(body.replace(b"\n", b"\r\n"))) == whole
    dice = make_dice()
    for _ in range(50):
        assert play(open_stream(usage=True), random_slices(body, dice)) == whole


@pytest.mark.no_cover
@streams.each(*streams.MESSAGES)
def test_stream_cut_at_any_byte_is_not_complete(stream: Stream) -> None:
    """Except for a cut after the stop reason, where only `message_stop` is missing."""
    body = stream.body
    reason = body.index(b'"type":"message_delta"')
    ended = body.index(b"\n\n", reason)
    expected = play(open_stream(), [body]).tokens
    for cut in range(len(body)):
        played = play(open_stream(usage=True), [body[:cut]])
        assert played.failure is None
        assert played.complete == (cut >= ended), cut
        if not played.complete:
            assert all(choice["finish_reason"] is None for choice in played.choices)
        elif cut < len(body):
            assert played.tokens == expected
