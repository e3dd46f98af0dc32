"""Chat streams, bytes in and bytes out: framing and edits in every slicing; the reader alone. `faults.txt` has errors."""

from __future__ import annotations

from typing import Final

from gateway.dialects.chat.stream import ChatReader, ChatStream
from gateway.dialects.wire.sse import parse_event
from tests.dialects.chat.kit import (
    BEGIN,
    DONE,
    END,
    HI,
    MODEL,
    USAGE,
    WHOLE,
    Json,
    check_stream,
    choice,
    chunk,
    dump,
    each_byte,
    event,
    events,
    make_context,
    ours,
    play,
    role,
    send,
    stop,
    text,
)
from tests.support.rows import each_row

# Framing


def test_a_conforming_stream_passes_but_for_the_model() -> None:
    played = send(WHOLE)
    assert (played.out, played.complete, played.failure) == (ours(WHOLE), True, None)
    check_stream(played.chunks, usage=False)


@each_row("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_byte_by_byte(end: bytes) -> None:
    body = WHOLE.replace(b"\n", end)
    expected = play(ChatStream(make_context()), [body])
    assert expected.complete
    assert [one["choices"] for one in expected.chunks] == [[role()], [text("Hi")], [stop()]]
    assert play(ChatStream(make_context()), each_byte(body)) == expected


def test_comments_pass_and_do_not_begin_the_stream() -> None:
    stream = ChatStream(make_context())
    assert stream.feed(b": OPENROUTER PROCESSING\n\n:\n\n") == b": OPENROUTER PROCESSING\n\n:\n\n"
    assert not stream.begun
    assert stream.feed(BEGIN) == ours(BEGIN)
    assert stream.begun


CHUNKS: Final = (chunk(role()), chunk(text("Hi")), chunk(stop()))
SPACED: Final = WHOLE.replace(b"}\n\n", b"} \n\n")
CALM: Final = BEGIN + event(chunk(text("Hi"), error=None)) + END + DONE
BROKEN: Final = HI.replace(b"Hi", b"\xff\xc3") + HI.replace(b"Hi", rb"\ud800")
UNREAD: Final = BEGIN + BROKEN + HI + HI + BROKEN + END + DONE


@each_row(
    ("sent", "heard"),
    [
        (b"\xef\xbb\xbf" + WHOLE, WHOLE),
        (b": one\n" + WHOLE, b": one\n\n" + WHOLE),
        # openai-python fails on fields other than data, alone or in an event.
        *((field + b"\n" + BEGIN + field + HI + END + field + b"\n" + DONE, WHOLE)
          for field in (b"id: 7\n", b"retry: 1\n", b"event: message\n", b"x: y\n", b"x\n")),
        (b"event: ping\n\n" + BEGIN + b"event: ping\nid: 1\n\n\n\n" + HI + END + DONE, WHOLE),
        *((b"".join(line % dump(one) for one in CHUNKS) + DONE, WHOLE)
          for line in (b"data:%s\n\n", b"event: x\ndata: %s\n\n", b"data: %s\nid: 1\n\n")),
        (WHOLE.replace(HI, HI.replace(b',"object"', b'\ndata: ,"object"')), WHOLE),
        (SPACED, SPACED),  # TensorRT-LLM ends its lines with a space
        (WHOLE + HI + b": late\n\n", WHOLE),
        (CALM, CALM),
        (UNREAD, UNREAD),  # invalid UTF-8 and lone surrogates, before and after a template was learned
    ],
)  # fmt: skip
def test_what_reads_the_same_is_written_alike(sent: bytes, heard: bytes) -> None:
    assert send(sent).out == ours(heard)


@each_row(
    "done",
    [b"data: [DONE]\n\n", b"data: [DONE]  \n\n", b"data:[DONE]\n\n", b"data: [DONE]\n",
     b"data: [DONE]", b"data: [DONE]\r\r", b"data: [DONE]\r\n", b"event: x\ndata: [DONE]\n\n", b""],
)  # fmt: skip
def test_every_way_to_be_done(done: bytes) -> None:
    """If it is missing, cut or malformed after all choices finished, the caller still gets it."""
    played = send(BEGIN + HI + END + done)
    assert (played.out, played.complete, played.failure) == (ours(WHOLE), True, None)


# Edits


def test_only_the_top_level_is_edited() -> None:
    inner = {"model": "theirs", "id": "5319", 'x"model': "theirs", "usage": USAGE}
    value = chunk(
        choice({"content": '"model":"theirs" \\"id\\":\\"5319\\"', "own": inner}), x=inner
    )
    wanted = {**value, "id": "chatcmpl-5319", "model": MODEL}
    body = events(chunk(role(), id="5319"), {**value, "id": "5319"})
    assert send(body).chunks[1] == wanted


@each_row("place", ["first", "later"])
def test_a_model_that_is_missing_is_not_invented(place: str) -> None:
    bare = [{key: value for key, value in one.items() if key != "model"} for one in
            (chunk(role()), chunk(text("Hi")), chunk(stop()))]  # fmt: skip
    body = events(*bare) if place == "first" else events(chunk(role()), *bare[1:])
    assert send(body + DONE).out == ours(body + DONE)


def test_a_model_that_is_null_gets_its_name() -> None:
    chunks = [chunk(one, model=None) for one in (role(), text("a"), text("b"), stop())]
    named = [{**one, "model": MODEL} for one in chunks]
    assert send(events(*chunks) + DONE).chunks == named


def read(*chunks: Json, n: int = 1) -> ChatReader:
    reader = ChatReader(make_context(n=n))
    for one in chunks:
        reader.read(parse_event(event(one)))
    return reader


def test_a_chunk_without_choices_brings_none() -> None:
    reader = ChatReader(make_context())
    for one in (chunk(), {"choices": None}, {}):
        assert reader.read(parse_event(event(one))) == []
    assert (
        len(reader.read(parse_event(event(chunk(choice({"role": "assistant", "content": ""}))))))
        == 1
    )
