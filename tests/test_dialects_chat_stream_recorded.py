"""Recorded streams of real providers: rules kept, nothing lost, in every slicing and at every cut."""

from __future__ import annotations

import json

import pytest
from chat_kit import (
    DONE,
    INPUT_ESTIMATE,
    MODEL,
    check_stream,
    dump,
    each_byte,
    make_context,
    make_dice,
    play,
    random_slices,
    read_chunks,
)
from support import recorded
from support.recorded import Said, accumulate

from gateway.dialects.chat_stream import ChatStream
from gateway.money import Tokens

recordings = pytest.mark.skipif(
    not recorded.FOLDER.is_dir(), reason="the recorded streams (../shared/streams) are not here"
)
every_recording = pytest.mark.parametrize("name", recorded.NAMES)


def frame(lines: list[bytes]) -> bytes:
    return b"".join(b"data: " + line + b"\n\n" for line in lines) + DONE


def report(said: Said) -> Tokens:
    assert said.usage is not None
    prompt, output, _ = said.usage
    return Tokens(prompt - said.cached_tokens, said.cached_tokens, 0, output)


@recordings
@every_recording
@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
def test_a_recording_keeps_the_rules_and_says_the_same(name: str, *, usage: bool) -> None:
    expected = accumulate(recorded.load(name))
    played = play(ChatStream(make_context(usage=usage)), [frame(recorded.load_lines(name))])
    assert played.complete
    assert played.out.endswith(DONE)
    check_stream(played.chunks, usage=usage)
    said = accumulate(played.chunks)
    assert said.choices == expected.choices
    bare = [one for one in recorded.load(name) if not one["choices"] and one.get("usage")]
    assert said.usage == (expected.usage if usage or not bare else None)
    assert (played.tokens, played.estimated) == (report(expected), False)


@recordings
@every_recording
@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
def test_slicing_a_recording_changes_nothing(name: str, *, usage: bool) -> None:
    body = frame(recorded.load_lines(name))
    dice = make_dice()
    expected = play(ChatStream(make_context(usage=usage)), [body])
    assert play(ChatStream(make_context(usage=usage)), each_byte(body)) == expected
    for _ in range(200):
        pieces = list(random_slices(body, dice))
        assert play(ChatStream(make_context(usage=usage)), pieces) == expected, pieces[:3]


def without_usage(name: str) -> bytes:
    chunks = [{**one, "usage": None} for one in recorded.load(name)]
    return frame([dump(one) for one in chunks])


@recordings
@every_recording
def test_the_delivered_estimate_is_exact_at_every_cut(name: str) -> None:
    """Without a usage: a quarter of the UTF-8 bytes in the events that went out, rounded up."""
    stream = ChatStream(make_context())
    heard = 0
    for byte in each_byte(without_usage(name)):
        for one in read_chunks(stream.feed(byte)):
            said = accumulate([one]).choices
            heard += sum(len(each.output.encode()) for each in said.values())
        expected = Tokens(INPUT_ESTIMATE, output=-(-heard // 4))
        assert stream.measure() == (expected, True)
        assert stream.delivered == (heard > 0)
    assert stream.complete


@recordings
def test_a_cut_stream_is_charged_the_larger_of_reported_and_delivered() -> None:
    """Perplexity reports as it goes; what was reported last may lag behind what was said."""
    stream = ChatStream(make_context())
    reported = heard = 0
    for line in recorded.load_lines("perplexity-text"):
        stream.feed(b"data: " + line + b"\n\n")
        said = accumulate([json.loads(line)])
        heard += len(said.choices[0].output.encode())
        reported = said.usage[1] if said.usage else reported
        tokens, estimated = stream.measure()
        assert tokens == Tokens(11, output=max(reported, -(-heard // 4)))
        assert estimated == (-(-heard // 4) > reported)


@recordings
def test_openais_own_stream_passes_byte_for_byte_but_for_the_model() -> None:
    """A naive reference, good for this recording: its text never speaks of models."""
    lines = recorded.load_lines("openai-text")
    model = json.loads(lines[0])["model"].encode()
    naive = frame(lines).replace(b'"model":"%s"' % model, b'"model":"%s"' % MODEL.encode())
    assert play(ChatStream(make_context(usage=True)), [frame(lines)]).out == naive
    unasked = play(ChatStream(make_context()), [frame(lines)]).out
    assert unasked == b"\n\n".join(naive.split(b"\n\n")[:-3]) + b"\n\n" + DONE


@recordings
def test_an_id_without_the_shape_is_all_that_changes_besides() -> None:
    lines = recorded.load_lines("openai-text")
    identity, model = (json.loads(lines[0])[key].encode() for key in ("id", "model"))
    bare = [line.replace(identity, b"5319bd02-99") for line in lines]
    naive = frame(bare).replace(b'"id":"5319bd02-99"', b'"id":"chatcmpl-5319bd02-99"')
    naive = naive.replace(b'"model":"%s"' % model, b'"model":"%s"' % MODEL.encode())
    assert play(ChatStream(make_context(usage=True)), [frame(bare)]).out == naive


@recordings
@every_recording
@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
def test_what_went_out_needs_no_repair(name: str, *, usage: bool) -> None:
    """Fed in again, under the same name, every byte passes."""
    out = play(ChatStream(make_context(usage=usage)), [frame(recorded.load_lines(name))]).out
    assert play(ChatStream(make_context(usage=usage)), [out]).out == out
