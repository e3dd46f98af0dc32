"""The caller's side of a reply: events, comments, JSON replies, slow callers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from aiohttp import HttpVersion11, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_writer import StreamWriter
from multidict import CIMultiDict

from gateway.api.bodies import SMALL_BYTES
from gateway.api.sink import PIECE_BYTES, JsonReply, StreamSink
from tests.api.test_bodies import make_call, make_gateway
from tests.support.chat import check_error, say
from tests.support.client import request
from tests.support.process import CHAT, GatewayProcess
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row
from tests.support.running import Launch
from tests.support.seed import Seed
from tests.support.stage import Stage
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
COMMENT_SECONDS = 15.0
STALL_SECONDS = 60.0


class OpenTransport(asyncio.Transport):
    """A transport that takes all bytes at once."""

    written = b""
    writes = 0
    protocol: BaseProtocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.writes += 1

    def is_closing(self) -> bool:
        return False


class StuckTransport(OpenTransport):
    """A transport whose caller reads nothing."""

    aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        if not self.protocol.writing_paused:
            self.protocol.pause_writing()

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


class ResetTransport(OpenTransport):
    """A transport that is open until the last event: asyncio shows a reset connection like that."""

    def is_closing(self) -> bool:
        return DONE in self.written


@dataclass(slots=True)
class Response:
    """A response whose head is written where it is prepared, as aiohttp does."""

    headers: dict[str, str] = field(default_factory=dict)

    def enable_chunked_encoding(self) -> None:
        """Nothing: the writer is chunked."""

    async def prepare(self, request: web.Request) -> StreamWriter:
        assert isinstance(request.writer, StreamWriter)
        await request.writer.write_headers("HTTP/1.1 200 OK", CIMultiDict())
        return request.writer


def make_new_sink(transport: OpenTransport) -> StreamSink:
    """Make the sink of a chunked response whose head was not sent yet."""
    protocol = BaseProtocol(asyncio.get_running_loop())
    protocol.transport = transport
    transport.protocol = protocol
    writer = StreamWriter(protocol, asyncio.get_running_loop())
    writer.enable_chunking()
    request = SimpleNamespace(protocol=protocol, version=HttpVersion11, writer=writer)
    return StreamSink(
        cast("web.Request", request),
        cast("web.StreamResponse", Response()),
        {},
        wait_admitted,
        keep_alive=KEEP_ALIVE,
        comment_seconds=COMMENT_SECONDS,
        stall_seconds=STALL_SECONDS,
        is_draining=bool,
    )


async def make_sink(transport: OpenTransport) -> StreamSink:
    """Make the sink of a chunked response whose head was sent."""
    sink = make_new_sink(transport)
    await sink.begin()
    return sink


async def wait_admitted() -> None:
    """Wait until the request's row is committed."""


async def test_a_stream_ends_without_error_when_its_last_write_finds_the_caller_gone() -> None:
    transport = ResetTransport()
    (await make_sink(transport)).end(DONE)
    assert transport.written.endswith(DONE + b"\r\n0\r\n\r\n")


async def test_the_head_and_the_events_that_wait_for_it_are_one_write() -> None:
    transport = OpenTransport()
    sink = make_new_sink(transport)
    sink._comment_due = 0.0
    assert not sink.send(b"data: 1\n\n")
    assert not sink.send(b"data: 2\n\n")
    await sink.begin()
    events = b"data: 1\n\ndata: 2\n\n"
    assert transport.written == b"HTTP/1.1 200 OK\r\n\r\n%x\r\n%b\r\n" % (len(events), events)
    assert transport.writes == 1
    sink.tick(asyncio.get_running_loop().time(), mid_event=False)
    assert KEEP_ALIVE not in transport.written, "they put a comment off"


async def test_the_head_leaves_with_a_comment_where_no_event_comes() -> None:
    transport = OpenTransport()
    sink = make_new_sink(transport)
    now = asyncio.get_running_loop().time()
    sink.tick(now + COMMENT_SECONDS + 1, mid_event=False)
    await until(lambda: transport.writes == 1, "head and comment to leave")
    sink.tick(now + 2 * (COMMENT_SECONDS + 1), mid_event=False)
    await until(lambda: transport.writes == 2, "another comment to leave")
    assert transport.written.count(KEEP_ALIVE) == 2
    sink.send(b"data: 1\n\n")
    await sink.begin()
    assert transport.written.startswith(b"HTTP/1.1 200 OK\r\n\r\ne\r\n: keep-alive")
    assert transport.written.endswith(b"9\r\ndata: 1\n\n\r\n")
    assert transport.written.count(b"HTTP") == 1


async def test_a_comment_that_comes_too_late_is_left_out() -> None:
    """The stream may be within an event by then."""
    transport = OpenTransport()
    sink = make_new_sink(transport)
    sink.tick(asyncio.get_running_loop().time() + COMMENT_SECONDS + 1, mid_event=False)
    await sink.begin()
    for _ in range(3):
        await asyncio.sleep(0)
    assert KEEP_ALIVE not in transport.written


@each_row("closes", [False, True])
async def test_who_waits_for_the_row_sends_one_head_and_none_behind_a_close(closes: bool) -> None:
    """A comment and the first event may wait for it together."""
    transport, admitted = OpenTransport(), asyncio.Event()
    sink = make_new_sink(transport)

    async def wait() -> None:
        await admitted.wait()

    sink.wait_admitted = wait
    sink.tick(asyncio.get_running_loop().time() + COMMENT_SECONDS + 1, mid_event=False)
    await asyncio.sleep(0)
    sink.send(b"data: 1\n\n")
    beginning = asyncio.ensure_future(sink.begin())  # noqa: TID251 - awaited below
    await asyncio.sleep(0)
    if closes:
        sink.close()
    admitted.set()
    (result,) = await asyncio.gather(beginning, return_exceptions=True)
    assert isinstance(result, ConnectionResetError) is closes
    assert transport.written.count(b"HTTP") == transport.written.count(b"data: 1") == (not closes)


async def test_the_head_waits_for_no_caller_that_reads_nothing() -> None:
    """The wait is that of `unblock`, which is given up in time."""
    sink = make_new_sink(StuckTransport())
    sink.send(bytes(1 << 20))
    async with asyncio.timeout(30):
        await sink.begin()
    assert not sink.send(b"data: 2\n\n")


async def test_the_last_events_and_the_end_are_one_write() -> None:
    transport = OpenTransport()
    sink = await make_sink(transport)
    before = transport.writes
    sink.end(DONE)
    assert transport.writes == before + 1
    assert transport.written.endswith(b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE))
    assert transport.written.count(b"0\r\n\r\n") == 1


async def test_nothing_is_written_to_a_connection_that_is_lost() -> None:
    """asyncio would log each such write."""
    transport = OpenTransport()
    sink = await make_sink(transport)
    before = transport.writes
    transport.protocol.transport = None
    assert sink.send(b"data: 1\n\n")
    assert transport.writes == before


async def test_nothing_is_written_behind_the_end() -> None:
    """Provider bytes after the end, and a second end, must not get into the next reply."""
    transport = OpenTransport()
    sink = await make_sink(transport)
    sink.send(b"data: 1\n\n")
    sink.end(DONE)
    whole = transport.written
    assert whole.endswith(DONE + b"\r\n0\r\n\r\n")
    assert sink.send(b"data: 2\n\n")
    sink.end(DONE)
    assert transport.written == whole


async def test_what_is_read_on_for_a_caller_that_left_is_not_kept() -> None:
    sink = make_new_sink(StuckTransport())
    sink.abort()
    assert sink.send(b"data: 1\n\n")
    assert not sink._pending


async def test_a_silence_is_broken_once_an_interval() -> None:
    transport = OpenTransport()
    sink = await make_sink(transport)
    now = asyncio.get_running_loop().time()
    for seconds, comments in ((14.5, 0), (15.1, 1), (29.9, 1), (30.2, 2)):
        sink.tick(now + seconds, mid_event=False)
        assert transport.written.count(KEEP_ALIVE) == comments, seconds


async def test_events_put_a_comment_off() -> None:
    transport = OpenTransport()
    sink = await make_sink(transport)
    sink._comment_due = 0.0
    sink.send(b"data: 1\n\n")
    sink.tick(asyncio.get_running_loop().time() + COMMENT_SECONDS - 1, mid_event=False)
    assert KEEP_ALIVE not in transport.written


async def test_no_comment_stands_inside_an_event_or_behind_the_end() -> None:
    transport = OpenTransport()
    sink = await make_sink(transport)
    late = asyncio.get_running_loop().time() + COMMENT_SECONDS + 1
    sink.tick(late, mid_event=True)
    assert KEEP_ALIVE not in transport.written
    sink.end(DONE)
    sink.tick(late, mid_event=False)
    assert KEEP_ALIVE not in transport.written


async def test_a_caller_that_takes_nothing_is_given_up() -> None:
    transport = StuckTransport()
    sink = await make_sink(transport)
    assert not sink.send(b"data: 1\n\n")
    now = asyncio.get_running_loop().time()
    sink._stalled_since = now
    sink.tick(now + STALL_SECONDS - 0.1, mid_event=False)
    assert not sink.lost
    assert KEEP_ALIVE not in transport.written, "a comment would only queue up"
    sink.tick(now + STALL_SECONDS + 0.1, mid_event=False)
    assert sink.lost
    assert transport.aborted


async def test_a_caller_that_took_its_bytes_is_not_given_up() -> None:
    sink = await make_sink(OpenTransport())
    await sink.unblock()
    sink.tick(asyncio.get_running_loop().time() + STALL_SECONDS + 1, mid_event=False)
    assert not sink._ended


MODEL: Final = "plain/0"
LARGE: Final = "x" * (16 << 20)
"""More than both ends of a connection buffer."""
HUGE: Final = "x" * (40 << 20)
"""More than both of them and an account's share take."""


async def ask_until_served(gateway: GatewayProcess, key: str) -> None:
    """The gateway notices only after the caller that a reply was read."""
    while (reply := await gateway.chat(key, say(MODEL))).status != 200:
        check_error(reply, 429, "rate_limit_exceeded")


async def test_an_unread_reply_takes_its_accounts_share(
    launch: Launch, alpha: ScriptedUpstream
) -> None:
    """Another account has its own share; what was read, or never will be, is given back."""
    running = launch(seeds=(Seed("rich"), Seed("other")), server="max_bodies_mb = 32")
    gateway = running.gateway
    own, other = (running.callers[name].key for name in ("rich", "other"))
    for leaves in (False, True):
        alpha.play(json_reply(completion(LARGE)))
        async with gateway.chatting(own, say(MODEL)) as call:
            await call.read_head()
            assert call.status == 200
            alpha.always(json_reply(completion()))
            check_error(await gateway.chat(own, say(MODEL)), 429, "rate_limit_exceeded")
            assert (await gateway.chat(other, say(MODEL))).status == 200
            if not leaves:
                assert len((await call.read_all()).body) > len(LARGE)
                await ask_until_served(gateway, own)
        await ask_until_served(gateway, own)


@pytest.mark.slow
async def test_over_its_share_only_an_accounts_own_replies_are_not_read(
    launch: Launch, alpha: ScriptedUpstream
) -> None:
    """One of two unread replies is taken; once it is read, the other follows."""
    running = launch(seeds=(Seed("rich"), Seed("other")), server="max_bodies_mb = 32")
    gateway, key = running.gateway, running.callers["rich"].key
    (large,) = json_reply(completion(HUGE))
    assert isinstance(large, bytes)
    alpha.play(*[[large[at : at + 2**20] for at in range(0, len(large), 2**20)]] * 2)
    async with contextlib.AsyncExitStack() as stack:
        calls = [await stack.enter_async_context(gateway.chatting(key, say(MODEL))) for _ in "12"]
        await alpha.wait_for(2)
        exchanges = alpha.exchanges[:2]
        await until(lambda: any(one.played.is_set() for one in exchanges), "the first reply")
        alpha.always(json_reply(completion()))
        other = running.callers["other"].key
        assert (await gateway.chat(other, say(MODEL))).status == 200
        check_error(await gateway.chat(key, say(MODEL)), 429, "rate_limit_exceeded")
        assert [one.played.is_set() for one in exchanges].count(True) == 1
        replies = await asyncio.gather(*(call.read_all() for call in calls))
        assert all(len(one.body) > len(HUGE) for one in replies)
    await ask_until_served(gateway, key)


@pytest.mark.parametrize(
    ("size", "unread", "wanted"),
    [
        (
            2 * PIECE_BYTES + 1,
            0,
            ["waited", PIECE_BYTES, "waited", PIECE_BYTES, "waited", 1, "waited"],
        ),
        (9, SMALL_BYTES, []),
        (9, SMALL_BYTES + 1, ["waited"]),
    ],
)
async def test_a_reply_waits_until_the_caller_has_taken_what_is_before_it(
    size: int, unread: int, wanted: list[int | str]
) -> None:
    """A transport copies what it cannot send at once, and takes any number of pipelined replies."""
    played: list[int | str] = []
    call = make_call(make_gateway(4), 1)

    async def wait() -> None:
        assert call.held_bytes == max(size, unread)
        played.append("waited")

    transport = SimpleNamespace(
        write=lambda data: played.append(len(data)),
        is_closing=bool,
        get_write_buffer_size=lambda: unread,
    )
    asked: Any = SimpleNamespace(
        transport=transport,
        keep_alive=True,
        version=HttpVersion11,
        writer=SimpleNamespace(drain=wait),
    )
    await JsonReply(call, b"a" * size, {}).prepare(asked)
    assert played[1:] == wanted
    assert call.held_bytes == 0


@pytest.mark.parametrize(
    ("version", "asked", "told", "ends"),
    [
        ("1.1", None, None, False),
        ("1.1", "close", "close", True),
        ("1.0", None, None, True),
        ("1.0", "keep-alive", "keep-alive", False),
    ],
)
async def test_a_reply_says_whether_the_connection_goes_on(
    stage: Stage, version: str, asked: str | None, told: str | None, *, ends: bool
) -> None:
    stage.alpha.play(json_reply(completion()))
    headers = {"Authorization": f"Bearer {stage.key}", "Content-Type": "application/json"}
    headers |= {"Connection": asked} if asked else {}
    body = json.dumps(say(stage.fresh("plain"))).encode()
    sent = request("POST", CHAT, headers, body).replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1)
    async with stage.gateway.connect() as call:
        await call.send(sent)
        reply = await call.read_all()
        assert (reply.status, reply.headers.get("connection")) == (200, told)
        assert (reply.headers["server"], reply.headers["content-type"]) == (
            "gateway",
            "application/json",
        )
        if ends:
            assert await call.read_to_close() == b""
