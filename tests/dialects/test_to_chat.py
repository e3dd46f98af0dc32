"""Chat replies and streams to callers of other dialects: what both translations must do alike.

What each says is in `heard.txt`. Slicings and cuts of whole streams are tested in
`test_provider_streams`.
"""

from __future__ import annotations

import gc
import itertools
import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.translate.first_choice import FirstChoiceWriter
from gateway.dialects.wire.pipelines import Pipeline
from tests.dialects.chat.kit import (
    AZURE,
    DONE,
    REPORTED,
    Json,
    Played,
    begin,
    choice,
    chunk,
    each_byte,
    event,
    fragment,
    make_context,
    play,
    random_slices,
    role,
    stop,
    stream,
    text,
)
from tests.dialects.rules import add_up
from tests.support.content import Content, ToolCall, of_message, of_response
from tests.support.formats import EXCHANGES
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

each_caller = each_row("caller", [one for one in EXCHANGES if one != "chat"])


def open_stream(caller: str) -> Pipeline:
    return EXCHANGES[caller]["chat"].open_stream(make_context(usage=True))


def hear(caller: str, data: bytes) -> Played:
    return play(open_stream(caller), [data])


def read_whole(caller: str, played: Played) -> Content:
    """Return what a stream adds up to; it must be complete and keep all rules."""
    return {"messages": of_message, "responses": of_response}[caller](add_up(caller, played))


PLAIN: Final = stream(text("a"))


@each_caller
@each_row(
    "data",
    [
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"\n", b"\r"),
        PLAIN.replace(b"data: ", b"data:"),
        PLAIN.replace(b"}\n", b"} \n"),
        PLAIN.replace(b"data: {", b"data: {\ndata: "),
        PLAIN.replace(b"data: ", b"id: 1\nretry: 5\nevent: x\ndata: "),
        b"retry: 1\n\nevent: ping\n\n" + PLAIN,
        PLAIN.removesuffix(b"\n"),  # [DONE] with its line
        PLAIN.removesuffix(b"\n\n"),
        PLAIN.removesuffix(DONE),
        PLAIN.removesuffix(b"\n\n" + DONE),
        PLAIN.replace(DONE, b"data: [DONE] \n\n"),
        PLAIN.replace(DONE, b"data: [DONE]\n" * 20 + b"\n"),
        PLAIN.replace(DONE, b"data: [DONE]\n" * 20),
        PLAIN.replace(DONE, b"data: [DONE]\ndata: late\n\n"),
        PLAIN + event(chunk(text("late"))),
        event(AZURE) + PLAIN,
        PLAIN.replace(b'"object":"chat.completion.chunk",', b""),
    ],
)
def test_whatever_the_framing_the_reply_is_the_same(caller: str, data: bytes) -> None:
    for pieces in ([data], each_byte(data)):
        played = play(open_stream(caller), pieces)
        assert read_whole(caller, played).text == "a"
        assert played.tokens == REPORTED


@each_caller
def test_comments_and_lone_surrogates_pass(caller: str) -> None:
    assert open_stream(caller).feed(b": busy\n\n") == b": busy\n\n"
    assert hear(caller, b": busy\n\n" + PLAIN).out.startswith(b": busy\n\nevent: ")
    halves = [event(chunk(text("HERE"))).replace(b"HERE", half) for half in (b"\\ud83d", b"\\ude00")]  # fmt: skip
    out = hear(caller, event(chunk(role())) + b"".join(halves) + event(chunk(stop())) + DONE).out
    assert b'"\\ud83d"' in out
    assert b'"\\ude00"' in out


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
objects = st.dictionaries(words, words | st.integers(-9, 9) | st.none(), max_size=3)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[Json], list[ToolCall]]:
    """Mix text, reasoning and calls of a stream at random; return the choices and the calls."""
    given = [ToolCall(f"c{at}", f"f{at}", draw(objects)) for at in range(draw(st.integers(0, 4)))]
    queues: list[list[Json]] = []
    for position, called in enumerate(given):
        written = json.dumps(called.arguments, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.sets(st.integers(0, len(written)), max_size=4)))
        pieces = [written[a:b] for a, b in itertools.pairwise([0, *cuts, len(written)])]
        queues.append([begin(position), *(fragment(position, piece) for piece in pieces)])
    queues += (
        [choice({key: said}) for said in draw(st.lists(words, max_size=4))]
        for key in ("content", "reasoning_content")
    )
    order = draw(st.permutations([at for at, queue in enumerate(queues) for _ in queue]))
    first_seen = dict.fromkeys(at for at in order if at < len(given))
    return [queues[at].pop(0) for at in order], [given[at] for at in first_seen]


@each_caller
def test_any_mixture_keeps_text_reasoning_and_calls(caller: str) -> None:
    @fuzz(150)
    @given(scripts(), st.randoms(use_true_random=False))
    def mix(script: tuple[list[Json], list[ToolCall]], dice: Any) -> None:
        choices, calls = script
        played = play(open_stream(caller), random_slices(stream(*choices), dice))
        told = read_whole(caller, played)
        for said, key in ((told.text, "content"), (told.thinking, "reasoning_content")):
            assert said == "".join(one["delta"].get(key, "") for one in choices)
        assert told.calls == calls
        assert played.tokens == REPORTED

    mix()


def count_writers() -> int:
    return sum(isinstance(one, FirstChoiceWriter) for one in gc.get_objects())


def test_a_stream_that_is_dropped_frees_the_picture_that_it_held_back() -> None:
    """A cycle would keep MiB of each until a collection."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    pictures = choice({"images": [picture]})
    _ = gc.collect()
    gc.disable()
    try:
        before = count_writers()
        pipeline = EXCHANGES["messages"]["chat"].open_stream(make_context({"model": "m"}))
        for one in (role(), begin(0, "{"), pictures):
            _ = pipeline.feed(event(chunk(one)))
        assert (pipeline.failure, count_writers()) == (None, before + 1)
        del pipeline
        assert count_writers() == before
    finally:
        gc.enable()
