"""Streams that fail after they began: whole events, one error event, the delivered part is paid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from tests.support.chat import (
    MAX_OUTPUT_TOKENS,
    SENT,
    Used,
    estimate,
    read_broken_stream,
    read_stream,
    say,
    split_events,
)
from tests.support.client import Cut, Reply
from tests.support.config import BRISK_SECONDS
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    USAGE,
    chunk,
    chunked,
    completion,
    dumps,
    http,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    stream_head,
    text_chunks,
)
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import Drip, End, Script, Wait

PROMPT = "Erzähle mir etwas."
PIECES = ["Es war ", "einmal", " ein König"]
TEXT = "".join(PIECES)
BEGUN = text_chunks(PIECES, finish=None)
ERROR = {"error": {"message": "the model crashed", "type": "server_error", "code": "crash"}}
ESTIMATED = Used(SENT, estimate(TEXT))

Make = Callable[[asyncio.Event], Script]


def then(*steps: object) -> Make:
    """Begin a stream, and play these steps once the caller has seen its text."""
    rest = [one for one in steps if isinstance(one, bytes | Wait | Drip | End)]
    assert len(rest) == len(steps)
    return lambda seen: [*sse_start(BEGUN), Wait(seen), *rest]


def close_delimited(seen: asyncio.Event) -> Script:
    """A body without length or chunks, whose cut looks like its end (RFC 9112, section 6.3)."""
    body = b"".join(sse(event) for event in BEGUN)
    return [stream_head(framing="close"), body, Wait(seen), End.FIN]


COMMENTS = Drip([chunked(b": still here\n\n")], BRISK_SECONDS / 8, forever=True)
BROKEN: dict[str, tuple[Make, str]] = {
    "close-delimited and cut": (close_delimited, "upstream_error"),
    "bad chunk size": (then(b"zz\r\n", End.FIN), "upstream_error"),
    "no last chunk": (then(End.FIN), "upstream_error"),
    "closed within an event": (then(chunked(b'data: {"id":"chat'), End.FIN), "upstream_error"),
    "reset": (then(End.RST), "upstream_error"),
    "silence": (then(End.HANG), "upstream_timeout"),
    "silence within an event": (then(chunked(b'data: {"id":'), End.HANG), "upstream_timeout"),
    "comments for ever": (then(COMMENTS), "upstream_timeout"),
    "clean end without a finish": (then(LAST_CHUNK), "upstream_error"),
}


async def read_and_tell(stage: Stage, body: object, seen: asyncio.Event, mark: str) -> Reply:
    """Read a stream to its end; `seen` is set once the mark has come."""
    async with stage.chatting(body) as call:
        await call.read_head()
        reply = Reply(call.status, call.headers)
        try:
            while piece := await call.read_piece():
                reply.body += piece
                if mark.encode() in reply.body:
                    seen.set()
        except Cut:
            reply.complete = False
    return reply


@each_row("name", BROKEN)
async def test_broken_stream_ends_in_an_error_and_is_charged_what_came(
    stage: Stage, name: str
) -> None:
    make, code = BROKEN[name]
    seen = asyncio.Event()
    stage.alpha.play(make(seen))
    model = stage.fresh("brisk")
    reply = await read_and_tell(stage, say(model, PROMPT, stream=True), seen, PIECES[-1])
    assert reply.status == 200
    assert read_broken_stream(reply.body, model, code).text == TEXT
    assert await stage.charge_nano(reply) == ESTIMATED.of(stage.alpha.last.body).cost_nano
    assert (await stage.settled(reply)).estimated


async def test_broken_stream_without_any_text_is_free(stage: Stage) -> None:
    seen = asyncio.Event()
    stage.alpha.play([*sse_start(BEGUN[:1]), Wait(seen), End.FIN])
    model = stage.fresh("brisk")
    reply = await read_and_tell(stage, say(model, PROMPT, stream=True), seen, "assistant")
    assert read_broken_stream(reply.body, model, "upstream_error").text == ""
    assert await stage.charge_nano(reply) == 0


@each_row(("reported", "charged"), [(50, 50), (1, estimate(TEXT))])
async def test_broken_stream_is_charged_the_larger_of_reported_and_delivered(
    stage: Stage, reported: int, charged: int
) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": reported, "total_tokens": 9 + reported}
    events = [event | {"usage": usage} for event in BEGUN]
    seen = asyncio.Event()
    stage.alpha.play([*sse_start(events), Wait(seen), End.FIN])
    model = stage.fresh("brisk")
    reply = await read_and_tell(stage, say(model, PROMPT, stream=True), seen, PIECES[-1])
    read_broken_stream(reply.body, model, "upstream_error")
    expected = Used(9, charged).cost_nano
    assert await stage.charge_nano(reply) == expected


@each_row("tail", [[], [DONE]])
async def test_error_event_of_the_upstream_ends_the_stream(stage: Stage, tail: list[bytes]) -> None:
    """The error is passed on without a [DONE], and the delivered part is paid."""
    stage.alpha.play(sse_reply([*BEGUN, ERROR, *tail], done=False))
    reply = await stage.chat(say(stage.fresh("brisk"), PROMPT, stream=True))
    *said, last = split_events(reply.body)
    assert "the model crashed" in json.loads(last)["error"]["message"]
    assert b"[DONE]" not in said
    assert await stage.charge_nano(reply) == ESTIMATED.of(stage.alpha.last.body).cost_nano


async def test_error_event_before_any_text_is_free(stage: Stage) -> None:
    stage.alpha.play(sse_reply([BEGUN[0], ERROR], done=False))
    reply = await stage.chat(say(stage.fresh("brisk"), PROMPT, stream=True))
    assert "error" in json.loads(split_events(reply.body)[-1])
    assert await stage.charge_nano(reply) == 0


async def test_missing_done_after_every_finish_is_added(stage: Stage) -> None:
    """Only the last line is missing."""
    model = stage.fresh("brisk")
    stage.alpha.play(sse_reply(stream_chunks(PIECES), done=False))
    reply = await stage.chat(say(model, PROMPT, stream=True))
    assert reply.complete
    assert read_stream(reply.body, model).text == TEXT
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


async def test_stream_without_usage_is_estimated(stage: Stage) -> None:
    """Four UTF-8 bytes of text count as a token, in the prompt and in the reply."""
    model = stage.fresh("brisk")
    stage.alpha.play(sse_reply(text_chunks(PIECES)))
    reply = await stage.chat(say(model, PROMPT, stream=True))
    assert read_stream(reply.body, model).text == TEXT
    assert await stage.charge_nano(reply) == ESTIMATED.of(stage.alpha.last.body).cost_nano
    assert (await stage.settled(reply)).estimated


TOO_MANY = 10 * (MAX_OUTPUT_TOKENS + 10**7)
NO_OUTPUT = Used(11, estimate(TEXT))
ABSURD: dict[str, tuple[bytes, Used]] = {
    "negative": (dumps(USAGE | {"completion_tokens": -7}), NO_OUTPUT),
    "negative input": (dumps(USAGE | {"prompt_tokens": -1}), Used(SENT, 7)),
    "a float": (dumps(USAGE | {"completion_tokens": 7.5, "total_tokens": 18.5}), NO_OUTPUT),
    "infinite": (
        b'{"prompt_tokens":11,"completion_tokens":1e999,"total_tokens":1e999}',
        NO_OUTPUT,
    ),
    "a string": (dumps(USAGE | {"completion_tokens": "7"}), NO_OUTPUT),
    "a boolean": (dumps(USAGE | {"completion_tokens": True}), NO_OUTPUT),
    "beyond the model": (
        dumps({"prompt_tokens": 11, "completion_tokens": TOO_MANY, "total_tokens": 11 + TOO_MANY}),
        NO_OUTPUT,
    ),
}
"""A usage, and what is charged for."""


@each_row("stream", [False, True])
@each_row("name", ABSURD)
async def test_the_half_of_a_usage_that_cannot_be_is_estimated(
    stage: Stage, name: str, *, stream: bool
) -> None:
    """The other half stays."""
    told, used = ABSURD[name]
    model = stage.fresh("brisk")
    mark = {"here": 1}
    if stream:
        last = dumps(chunk(None, usage=mark)).replace(dumps(mark), told)
        stage.alpha.play(sse_reply([*text_chunks(PIECES), b"data: " + last + b"\n\n"]))
    else:
        body = dumps(completion(TEXT, usage=mark)).replace(dumps(mark), told)
        stage.alpha.play([http(body)])
    reply = await stage.chat(say(model, PROMPT, stream=stream))
    assert reply.status == 200, reply.body
    if stream:
        assert read_stream(reply.body, model).text == TEXT
    assert await stage.charge_nano(reply) == used.of(stage.alpha.last.body).cost_nano
    assert (await stage.settled(reply)).estimated


async def test_stream_is_complete_with_its_terminal_event(stage: Stage) -> None:
    """The upstream never ends its last HTTP chunk."""
    model = stage.fresh("brisk")
    stage.alpha.play([*sse_start(stream_chunks(PIECES)), chunked(DONE), End.HANG])
    reply = await stage.chat(say(model, PROMPT, stream=True))
    assert reply.complete
    assert read_stream(reply.body, model).text == TEXT
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


@each_row("mib", [1, 5])
async def test_event_of_a_mebibyte_and_more_arrives_whole(stage: Stage, mib: int) -> None:
    """One line of several MiB, then a normal end."""
    model = stage.fresh("plain")
    long = "0123456789abcdef" * (mib * 2**16)
    stage.alpha.play(sse_reply(stream_chunks(["a", long, "z"])))
    reply = await stage.chat(say(model, PROMPT, stream=True))
    chunks = [json.loads(event) for event in split_events(reply.body)[:-1]]
    said = [one["delta"].get("content", "") for chunk in chunks for one in chunk["choices"]]
    assert "".join(said) == f"a{long}z"
    assert split_events(reply.body)[-1] == b"[DONE]"
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


async def test_characters_split_between_chunks_arrive_whole(stage: Stage) -> None:
    """Each chunk is one byte, so that characters are split too."""
    model = stage.fresh("brisk")
    body = b"".join(sse(event) for event in stream_chunks(["Grüß ", "日本", "🎉"])) + DONE
    pieces = [chunked(body[start : start + 1]) for start in range(len(body))]
    stage.alpha.play([stream_head(), *pieces, LAST_CHUNK])
    reply = await stage.chat(say(model, PROMPT, stream=True))
    assert read_stream(reply.body, model).text == "Grüß 日本🎉"
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


@each_row("stream", [False, True])
async def test_invalid_utf8_is_passed_on(stage: Stage, *, stream: bool) -> None:
    """Invalid bytes are left to the caller; usage is read nevertheless."""
    model = stage.fresh("brisk")
    if stream:
        body = b"".join(sse(event) for event in stream_chunks(["a", "MARK", "z"])) + DONE
        stage.alpha.play([stream_head(), chunked(body.replace(b"MARK", b"\xff\xfe")), LAST_CHUNK])
    else:
        stage.alpha.play([http(dumps(completion("aMARKz")).replace(b"MARK", b"\xff\xfe"))])
    reply = await stage.chat(say(model, PROMPT, stream=stream))
    assert reply.status == 200
    assert b"\xff\xfe" in reply.body
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


async def test_json_for_a_stream_request_reaches_the_caller(stage: Stage) -> None:
    """The reply is valid, so it is passed on and paid."""
    model = stage.fresh("brisk")
    stage.alpha.play(json_reply(completion(TEXT)))
    reply = await stage.chat(say(model, PROMPT, stream=True))
    assert reply.status == 200
    assert reply.complete
    assert PIECES[1].encode() in reply.body
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano
