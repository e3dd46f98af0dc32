"""Messages streams between equal dialects: model replaced, repaired, metered, ended."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from gateway.base.money import Tokens
from gateway.dialects.messages.stream import STOP, MessagesStream
from tests.dialects.chat.kit import DONE, MODEL, make_context, play, play_sliced
from tests.dialects.messages.kit import PING as PING_EVENT
from tests.dialects.messages.kit import close, finish, frame, open_block, say, start
from tests.support.rows import each_row

Json = dict[str, Any]


def begin(**usage: Any) -> Json:
    event = start(**usage)
    event["message"]["model"] = "theirs"
    return event


BEGIN = frame(begin(input_tokens=10, output_tokens=1), open_block(0, text=""))
WORDS = frame(say("Hi"), say(' "ünï"\n'), say("Hi"))
END = frame(close(), finish(output_tokens=2))
WHOLE = BEGIN + WORDS + END + STOP


def ours(body: bytes) -> bytes:
    return body.replace(b'"theirs"', b'"%b"' % MODEL.encode())


def open_stream() -> MessagesStream:
    return MessagesStream(make_context())


send: Final = partial(play_sliced, open_stream)


def test_a_conforming_stream_passes_but_for_the_model() -> None:
    played = send(WHOLE)
    assert (played.out, played.complete, played.failure) == (ours(WHOLE), True, None)
    assert (played.tokens, played.estimated) == (Tokens(10, output=2), False)


@each_row("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_at_split_points(end: bytes) -> None:
    body = WHOLE.replace(b"\n", end)
    expected = play(open_stream(), [body])
    assert expected.out == ours(body.removesuffix(STOP.replace(b"\n", end))) + STOP
    for cut in range(0, len(body) + 1, 5):
        assert play(open_stream(), [body[:cut], body[cut:]]) == expected, cut


def without_name(event: Json) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


@each_row(
    "event",
    [
        without_name(say("Hi")),
        b"id: 7\n" + frame(say("Hi")),
        b"retry: 1\n" + frame(say("Hi")),
        b"event: other\n" + without_name(say("Hi")),
        b"event: content_block_delta\n"
        + without_name({key: value for key, value in say("Hi").items() if key != "type"}),
        frame(say("Hi")).replace(b"data: {", b"data: {\ndata: "),
        frame(say("Hi")).replace(b"data: ", b"data:"),
    ],
)
def test_events_leave_with_exactly_their_name_and_data(event: bytes) -> None:
    """The SDKs need the `event:` line and fail on other fields."""
    out = send(BEGIN + event * 3 + END + STOP).out
    [blocks] = [out.removeprefix(ours(BEGIN)).removesuffix(END + STOP).split(b"\n\n")[:-1]]
    assert len(blocks) == 3
    for block in blocks:
        name, data = block.split(b"\n")
        assert name == b"event: content_block_delta"
        assert json.loads(data.removeprefix(b"data:"))["delta"] == say("Hi")["delta"]


def test_comments_pass_pings_pass_and_neither_begins_the_stream() -> None:
    stream = open_stream()
    assert stream.feed(b": wait\n\n") == b": wait\n\n"
    assert stream.feed(frame(PING_EVENT)) == frame(PING_EVENT)
    assert not stream.begun
    assert stream.feed(BEGIN) == ours(BEGIN)
    assert stream.begun


def test_what_says_nothing_is_left_out() -> None:
    """Empty data, chat's own ending, a byte order mark, and events without data are dropped."""
    noise = b"data:\n\n" + DONE + b"event: ping\n\nid: 4\n\n"
    assert send(b"\xef\xbb\xbf" + BEGIN + noise + WORDS + END + noise + STOP).out == ours(WHOLE)


def test_unknown_events_pass() -> None:
    """Clients must ignore them, so a later version of the API may add some."""
    new = frame({"type": "brand_new", "a": 1})
    assert send(BEGIN + new + WORDS + END + STOP).out == ours(BEGIN) + new + WORDS + END + STOP


def test_only_the_messages_own_model_is_renamed() -> None:
    event = begin(input_tokens=1)
    event["message"]["content"] = [{"type": "text", "text": '"model": "theirs"'}]
    event["other"] = {"model": "theirs"}
    out = send(frame(event) + END + STOP).out
    read = json.loads(out.split(b"\n")[1].removeprefix(b"data: "))
    assert read == {**event, "message": {**event["message"], "model": MODEL}}


def test_a_message_without_a_model_gets_none() -> None:
    body = frame(start(input_tokens=1), say("a")) + END + STOP
    assert send(body).out == body


def test_a_model_that_is_null_gets_its_name() -> None:
    event = begin(input_tokens=1)
    event["message"]["model"] = None
    out = send(frame(event) + END + STOP).out
    read = json.loads(out.split(b"\n")[1].removeprefix(b"data: "))
    assert read == {**event, "message": {**event["message"], "model": MODEL}}


# Endings


def test_nothing_behind_the_end_goes_out() -> None:
    assert send(WHOLE + WORDS + b": late\n\n").out == ours(WHOLE)


def test_a_missing_message_stop_is_made_up_for() -> None:
    """Only after the stop reason; the last event may lack its blank line."""
    for body in (BEGIN + WORDS + END, (BEGIN + WORDS + END)[:-2]):
        played = send(body)
        assert (played.out, played.complete) == (ours(WHOLE), True)
    for body in (b"", BEGIN, BEGIN + WORDS, (BEGIN + WORDS + END)[:-4], END):
        assert not send(body).complete
