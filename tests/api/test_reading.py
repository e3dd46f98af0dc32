"""The caller's connection: how much is parsed at a time, and how much behind a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
from aiohttp import StreamReader, web

from gateway.api import lingering
from gateway.api.aiohttp_insides import PacedConnection, Wire
from gateway.api.bodies import has_tiny_chunks, resume_body
from gateway.api.keys import note_known
from tests.support.client import request, send_before_reading
from tests.support.loops import on_each_loop
from tests.support.waiting import until

TINY_CHUNKS, TINY_BYTES = 512, 32
PIECE_BYTES, READ_BYTES, STRANGER_BYTES = 1 << 10, 64 << 10, 16 << 10

TINY: Final = b"1\r\na\r\n"
CLOSE: Final = ("Connection", "close")
CHUNKED: Final = request("POST", "/", [("Transfer-Encoding", "chunked"), CLOSE])
SECONDS: Final = 30.0


class Watched(PacedConnection):
    """Notes the size of each piece that is parsed, and the chunks so far."""

    __slots__ = ("parsed",)

    def __init__(self, server: web.Server, parsed: list[int]) -> None:
        super().__init__(server, {}, linger_bytes=4 << 20)
        self.parsed = parsed

    def parse(self, data: bytes) -> None:
        self.parsed += [len(data)] * bool(data)
        super().parse(data)


@dataclass(slots=True)
class Scene:
    """A server of our connections."""

    port: int
    parsed: list[int] = field(default_factory=list)

    async def send(self, *pieces: bytes) -> bytes:
        """Send pieces by a new connection; return all that came until it was closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        came = b""
        try:
            for piece in pieces:
                writer.write(piece)
            async with asyncio.timeout(SECONDS):
                while data := await reader.read(2**16):
                    came += data
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
        return came


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[Scene]:
    scene = Scene(0)
    server = web.Server(handler, lingering_time=0.2, access_log=None)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Wire(Watched(server, scene.parsed)), "127.0.0.1", 0)
    scene.port = listener.sockets[0].getsockname()[1]
    try:
        yield scene
    finally:
        listener.close()
        await server.shutdown(1)


async def refuse(_: web.BaseRequest) -> web.Response:
    return web.Response(status=401, text="no")


async def read(http: web.BaseRequest) -> web.Response:
    """Read a body like the API does."""
    resume_body(http)
    size = 0
    while data := await http.content.readany():
        size += len(data)
        if has_tiny_chunks(http):
            return web.Response(status=400)
    return web.Response(text=str(size))


@on_each_loop
async def test_others_have_their_turns_between_requests_of_one_read() -> None:
    turns: list[str] = []

    async def note(_: web.BaseRequest) -> web.Response:
        turns.append("request")
        asyncio.get_running_loop().call_soon(turns.append, "other")
        return web.Response()

    async with serve(note) as scene:
        await scene.send(request("GET", "/") * 9 + request("GET", "/", [CLOSE]))
        assert turns == ["request", "other"] * 10


@on_each_loop
async def test_a_connection_lost_between_requests_of_one_read_ends_quietly() -> None:
    tasks: list[asyncio.Task[None]] = []

    class LastReply(web.Response):
        async def write_eof(self, data: bytes = b"") -> None:
            await super().write_eof(data)
            assert http.transport is not None
            asyncio.get_running_loop().call_soon(http.protocol.connection_lost, None)
            asyncio.get_running_loop().call_soon(http.transport.abort)

    http: web.BaseRequest

    async def reply(asked: web.BaseRequest) -> web.Response:
        nonlocal http
        http = asked
        tasks.append(asked.task)
        return LastReply()

    async with serve(reply) as scene:
        await scene.send(request("GET", "/") * 3)
        await asyncio.wait(tasks)
        assert [one.exception() for one in tasks] == [None]


@on_each_loop
async def test_of_tiny_chunks_behind_a_refusal_none_is_parsed() -> None:
    async with serve(refuse) as scene:
        came = await scene.send(CHUNKED + TINY * 100_000)
        assert came.startswith(b"HTTP/1.1 401")
        assert scene.parsed == [len(CHUNKED)]


@on_each_loop
async def test_a_refused_body_is_thrown_away_while_its_caller_sends() -> None:
    """Each caller sends all before it reads; beyond `linger_bytes` it sees that nobody reads."""
    sizes = {128 << 10: True, 3 << 20: True, 24 << 20: False}
    async with serve(refuse) as scene:
        for size, is_told in sizes.items():
            for head, end in (
                (request("POST", "/", [("Content-Length", str(size))]), b""),
                # More digits than Python reads.
                (request("POST", "/", [("Content-Length", f"{size:05000}")]), b""),
                (CHUNKED + b"%x\r\n" % size, b"\r\n0\r\n\r\n"),
                (b"no HTTP\r\n\r\n", b""),
            ):
                scene.parsed.clear()
                pieces = (head, *[bytes(2**14)] * (size >> 14), end)
                came = await asyncio.to_thread(send_before_reading, scene.port, *pieces)
                assert bool(came) == is_told, (size, head)
                assert b"HTTP/1.1" not in came or b"\r\nConnection: close\r\n" in came
                # A handler begins a turn after its head was parsed: uvloop reads in between.
                assert sum(scene.parsed) <= len(head) + 3 * STRANGER_BYTES


async def drip(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)


@on_each_loop
async def test_a_caller_that_goes_on_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LINGER_SECONDS", 0.3)
    head = request("POST", "/", [("Content-Length", "1000000")])
    bodies: list[StreamReader] = []

    async def refuse_late(http: web.BaseRequest) -> web.Response:
        await until(lambda: http.content.total_bytes > 0, "a part of the body")
        bodies.append(http.content)
        return await refuse(http)

    async with serve(refuse_late) as scene:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
        writer.write(head + b" " * 1000)
        assert (await reader.read()).startswith(b"HTTP/1.1 401"), "nothing follows, at once"
        assert not bodies[0]._buffer, "what came is not kept meanwhile"
        with pytest.raises(ConnectionError):
            await drip(writer)


@on_each_loop
async def test_a_connection_whose_small_body_nobody_wants_serves_on() -> None:
    async with serve(refuse) as scene:
        first = request("POST", "/", [("Content-Length", "1000")])
        last = request("GET", "/", [CLOSE])
        came = await scene.send(first, b" " * 1000 + last)
        assert came.count(b"HTTP/1.1 401") == 2


@on_each_loop
async def test_tiny_chunks_are_parsed_in_small_pieces_and_refused_early() -> None:
    async with serve(read) as scene:
        came = await scene.send(CHUNKED + TINY * 100_000)
        assert came.startswith(b"HTTP/1.1 400")
        assert max(scene.parsed) <= PIECE_BYTES
        assert sum(scene.parsed) <= len(CHUNKED) + TINY_CHUNKS * len(TINY) + 4 * PIECE_BYTES


@pytest.mark.parametrize(
    ("size", "count"), [(1, TINY_CHUNKS), (TINY_BYTES, 3000), (1024, 300), (65_536, 20)]
)
@on_each_loop
async def test_ordinary_chunks_are_read(size: int, count: int) -> None:
    """A few small ones, or any number of those that clients send; of JSON with a line for each value."""
    async with serve(read) as scene:
        text = (b"1,\n" * size)[:size]
        chunk = b"%x\r\n%b\r\n" % (size, text)
        came = await scene.send(CHUNKED + chunk * count, b"0\r\n\r\n")
        assert came.endswith(b"\r\n\r\n%d" % (size * count))


@on_each_loop
async def test_a_body_with_a_length_is_read_whole_whatever_its_lines() -> None:
    async with serve(read) as scene:
        body = b"1,\n" * (1 << 20)
        head = request("POST", "/", [("Content-Length", str(len(body))), CLOSE])
        assert (await scene.send(head + body)).endswith(b"\r\n\r\n%d" % len(body))
        assert max(scene.parsed) <= READ_BYTES
        assert sum(scene.parsed) == len(head) + len(body)


@on_each_loop
async def test_a_small_request_that_waits_for_its_turn_is_parsed_whole() -> None:
    async with serve(read) as scene:
        whole = request("POST", "/", [("Content-Length", "9"), CLOSE]) + b"some text"
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(scene.send(whole)) for _ in range(50)]
        assert all(one.result().endswith(b"\r\n\r\n9") for one in sent)
        assert scene.parsed == [len(whole)] * 50


@on_each_loop
async def test_strangers_that_send_at_once_share_the_turns() -> None:
    """The requests of one account are read meanwhile as if they were alone."""
    order: list[str] = []

    async def note(http: web.BaseRequest) -> web.Response:
        name = http.path
        order.append(name)
        if name == "/known":
            note_known(http, 1)
        return web.Response(text="well")

    async with serve(note) as scene:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
        known = request("GET", "/known")
        writer.write(known)
        await reader.readuntil(b"well")
        strangers = [await asyncio.open_connection("127.0.0.1", scene.port) for _ in range(200)]
        for _, other in strangers:
            other.write(request("GET", "/stranger"))
        writer.write(known)
        async with asyncio.timeout(SECONDS):
            await reader.readuntil(b"well")
            for other_reader, _ in strangers:
                await other_reader.readuntil(b"well")
        assert order.index("/known", 1) < 100
        for _, other in (*strangers, (reader, writer)):
            other.transport.abort()
