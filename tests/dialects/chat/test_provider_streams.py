"""Providers' chat streams for a chat caller: rules kept, nothing lost, in every slicing and cut."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gateway.dialects.chat.stream import ChatStream
from gateway.money import Tokens
from tests import streams
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    MODEL,
    check_stream,
    dump,
    each_byte,
    make_context,
    play,
    read_chunks,
)
from tests.streams import Stream, drop_comments, get_stream
from tests.support.rows import each_row
from tests.support.said import Said, accumulate

each_way = each_row("usage", [False, True])
OPENAI = [one for one in streams.CHAT if one.name.endswith(("openai-text", "quoted-stream"))]


def open_stream(stream: Stream, *, usage: bool = False) -> ChatStream:
    """Open a stream for a caller that asked for as many choices as there are."""
    return ChatStream(make_context(usage=usage, n=len(accumulate(stream.objects).choices)))


def report(said: Said) -> Tokens:
    assert said.usage is not None
    prompt, output, _ = said.usage
    cached, written = said.cached_tokens, said.written_tokens
    return Tokens(prompt - cached - written, cached, written, output)


def has_usage_behind_the_finish(stream: Stream) -> bool:
    """Return whether the usage has a chunk of its own, which only callers that asked for it get."""
    last = max(
        number
        for number, one in enumerate(stream.objects)
        if any(choice.get("finish_reason") for choice in one["choices"])
    )
    if any(choice.get("usage") for choice in stream.objects[last]["choices"]):
        return False
    return any(one.get("usage") for one in stream.objects[last + 1 :])


@streams.each(*streams.CHAT)
@each_way
def test_a_stream_keeps_the_rules_and_says_the_same(stream: Stream, *, usage: bool) -> None:
    expected = accumulate(stream.objects)
    played = play(open_stream(stream, usage=usage), [stream.body])
    assert played.complete
    assert played.out.endswith(DONE)
    chunks = read_chunks(drop_comments(played.out.removesuffix(DONE)))
    check_stream(chunks, usage=usage)
    said = accumulate(chunks)
    assert said.choices == expected.choices
    is_asked_for = usage or not has_usage_behind_the_finish(stream)
    assert said.usage == (expected.usage if is_asked_for else None)
    assert report(expected) == (stream.tokens or report(expected))
    assert (played.tokens, played.estimated) == (report(expected), False)


def without_usage(stream: Stream) -> Iterator[bytes]:
    """Remove the usage wherever it stands, byte for byte."""
    chunks = [{**one, "usage": None, "x_groq": None} for one in stream.objects]
    for one in chunks:
        one["choices"] = [{**choice, "usage": None} for choice in one["choices"]]
    return each_byte(b"".join(b"data: %b\n\n" % dump(one) for one in chunks) + DONE)


@streams.each(*streams.CHAT)
def test_the_delivered_estimate_is_exact_at_every_cut(stream: Stream) -> None:
    """Without a usage it is a quarter of the UTF-8 bytes of the sent events, rounded up."""
    pipeline = open_stream(stream)
    heard = 0
    for byte in without_usage(stream):
        for one in read_chunks(pipeline.feed(byte)):
            said = accumulate([one]).choices
            heard += sum(len(each.output.encode()) for each in said.values())
        expected = Tokens(INPUT_ESTIMATE, output=-(-heard // 4))
        metered = pipeline.measure()
        assert (metered.tokens, metered.estimated) == (expected, True)
        assert pipeline.delivered or heard == 0
    assert pipeline.complete


def test_a_cut_stream_is_charged_the_larger_of_reported_and_delivered() -> None:
    """Perplexity reports as it goes; its last report may lag behind the delivered text."""
    pipeline = ChatStream(make_context())
    reported = heard = 0
    lagged = False
    for payload in get_stream("perplexity-text").payloads:
        pipeline.feed(b"data: " + payload + b"\n\n")
        said = accumulate([json.loads(payload)])
        heard += len(said.choices[0].output.encode())
        reported = said.usage[1] if said.usage else reported
        metered = pipeline.measure()
        estimated = metered.estimated
        assert metered.tokens == Tokens(11, output=max(reported, -(-heard // 4)))
        assert estimated == (-(-heard // 4) > reported)
        lagged |= estimated
    assert lagged


@streams.each(*OPENAI)
def test_openais_own_stream_passes_byte_for_byte_but_for_the_model(stream: Stream) -> None:
    """The reference is naive: a text that mentions a model has its quotes escaped."""
    model = stream.objects[0]["model"].encode()
    naive = stream.body.replace(b'"model":"%s"' % model, b'"model":"%s"' % MODEL.encode())
    assert play(ChatStream(make_context(usage=True)), [stream.body]).out == naive
    unasked = play(ChatStream(make_context()), [stream.body]).out
    assert unasked == b"\n\n".join(naive.split(b"\n\n")[:-3]) + b"\n\n" + DONE


@streams.each(*OPENAI)
def test_an_id_without_the_shape_is_all_that_changes_besides(stream: Stream) -> None:
    identity, model = (stream.objects[0][key].encode() for key in ("id", "model"))
    bare = stream.body.replace(identity, b"5319bd02-99")
    naive = bare.replace(b'"id":"5319bd02-99"', b'"id":"chatcmpl-5319bd02-99"')
    naive = naive.replace(b'"model":"%s"' % model, b'"model":"%s"' % MODEL.encode())
    assert play(ChatStream(make_context(usage=True)), [bare]).out == naive
