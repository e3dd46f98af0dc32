"""Connections to a provider: which are cut, which are kept, and how what comes by them is handed over.

Which may serve again, and what a reset means, is in `played/connections.txt`.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
import weakref
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from yarl import URL

from gateway.base.errors import GatewayError, InternalError, UpstreamError, UpstreamUnavailable
from gateway.base.turns import TURN_SECONDS, Turns, find_turns
from gateway.upstream.connection import Connection, Pool, cut_piece
from gateway.upstream.dial import Dialer
from gateway.upstream.receivers import Wants
from gateway.upstream.response import Broken, Response
from tests.support.config import Places
from tests.support.loops import LOOPS, run_on
from tests.support.replies import chunked
from tests.support.rows import each_row
from tests.support.tls import CHAIN, ROOT
from tests.support.upstream import End, Exchange, Script, ScriptedUpstream, Step, Wait
from tests.support.waiting import until
from tests.upstream.kit import Taker

KEEPALIVE_SECONDS = 60
PIECE_BYTES, PART_BYTES, AT_ONCE_BYTES, STEP_BYTES = 128 << 10, 8 << 10, 2 << 10, 2 << 10
MOST_LINES, MOST_TRANSLATED_LINES = 1365, 341

REQUEST: Final = b"POST /v1/x HTTP/1.1\r\nHost: provider\r\nContent-Length: 2\r\n\r\n{}"
OK: Final = b"HTTP/1.1 200 OK\r\n"
WHOLE: Final = OK + b"Content-Length: 6\r\n\r\nhello!"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"hello!") + b"0\r\n\r\n"
ORIGIN: Final = URL("http://127.0.0.1:1/v1")
SECONDS: Final = 30.0
"""No wait of a test is longer."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A scripted provider and the pool of connections to it."""

    scripted: ScriptedUpstream
    pool: Pool

    async def ask(self, *script: Step, taker: Taker | None = None) -> tuple[Connection, Response]:
        """A request by a connection of the pool, up to the head of its response."""
        self.scripted.play(script)
        connection = self.pool.take() or await self.pool.connect()
        response = connection.start(REQUEST, lambda _: taker or Taker())
        async with asyncio.timeout(SECONDS):
            await response.read_head()
        return connection, response

    async def read(self, *script: Step) -> tuple[Connection, bytes]:
        """The same, its body read, and the connection given up."""
        taker = Taker()
        connection, response = await self.ask(*script, taker=taker)
        async with asyncio.timeout(SECONDS):
            await response.read_body()
        connection.close()
        return connection, taker.body

    async def is_given_again(self, connection: Connection) -> bool:
        """Return whether the next request gets this connection; it works on any."""
        other, body = await self.read(WHOLE)
        assert body == b"hello!"
        return other is connection

    async def wait_closed(self) -> Exchange:
        """The exchange before the last, once its connection is closed."""
        exchange = self.scripted.exchanges[-2]
        await asyncio.wait_for(exchange.closed.wait(), SECONDS)
        return exchange


@pytest.fixture
async def provider(alpha: ScriptedUpstream, places: Places) -> AsyncIterator[Provider]:
    pool = Pool(Dialer(URL(places.urls["alpha"]), SECONDS))
    yield Provider(alpha, pool)
    pool.close()


async def test_a_connection_whose_request_was_answered_too_early_serves_no_more(
    provider: Provider,
) -> None:
    """The provider may still wait for the rest of the request, and would take the next one for it."""

    async def write_late() -> AsyncIterator[bytes]:
        await response.read_head()
        yield b"the rest"

    provider.scripted.play([WHOLE])
    connection, taker = await provider.pool.connect(), Taker()
    response = connection.start(REQUEST, lambda _: taker)
    async with asyncio.timeout(SECONDS):
        await connection.send(write_late())
        await response.read_body()
    connection.close()
    assert (taker.body, connection.served) == (b"hello!", 0)
    assert not await provider.is_given_again(connection)


@pytest.mark.parametrize("has_room", [True, False])
async def test_a_connection_serves_again_whose_receiver_waits_at_the_end(
    provider: Provider, *, has_room: bool
) -> None:
    """Its response came whole, whether its receiver asked for more or was given up."""
    taker = Taker(full=True)
    connection, response = await provider.ask(WHOLE, taker=taker)
    delivery = asyncio.get_running_loop().create_task(response.read_body())
    await asyncio.wait_for(taker.asked.wait(), SECONDS)
    if has_room:
        taker.room.set()
    else:
        delivery.cancel()
    await asyncio.wait((delivery,))
    connection.close()
    assert taker.body == b"hello!"
    assert await provider.is_given_again(connection)


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ([WHOLE[:-1], End.HANG], ""),
        ([WHOLE[:-1], End.HANG], "satisfied"),
        ([WHOLE[:-1], End.HANG], "fail"),
        ([WHOLE[:-1], End.HANG], "satisfied fail"),
        ([WHOLE], "fail"),
    ],
)
async def test_a_connection_given_up_within_its_response_or_failed_after_its_end_is_cut(
    monkeypatch: pytest.MonkeyPatch, provider: Provider, script: Script, calls: str
) -> None:
    """A deadline may fall due with the last byte: whoever had it was told of an error."""
    monkeypatch.setattr("gateway.upstream.connection.LINGER_SECONDS", 0.05)
    connection, response = await provider.ask(*script, taker=Taker(satisfied="satisfied" in calls))
    if "fail" in calls:
        response.fail(UpstreamError("too late"))
    connection.close()
    assert not await provider.is_given_again(connection)
    await provider.wait_closed()


@pytest.mark.parametrize("step", [WHOLE, End.FIN])
async def test_an_idle_connection_that_is_closed_or_answers_nothing_is_not_given(
    provider: Provider, step: Step
) -> None:
    go_on = asyncio.Event()
    connection, _ = await provider.read(WHOLE, Wait(go_on), step)
    go_on.set()
    await until(lambda: not connection.usable, "the connection to be cut")
    assert not await provider.is_given_again(connection)


async def test_a_connection_is_probed_while_nothing_comes(provider: Provider) -> None:
    connection, _ = await provider.read(WHOLE)
    assert connection._transport is not None
    peer = connection._transport.get_extra_info("socket")
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_SECONDS


async def test_a_host_that_dns_cannot_have_is_unreachable() -> None:
    pool = Pool(Dialer(URL.build(scheme="http", host="a" * 64 + ".test"), SECONDS))
    with pytest.raises(UpstreamUnavailable):
        await pool.connect()
    pool.close()


async def test_a_connection_serves_no_more_while_its_request_is_on_the_way() -> None:
    """A refusal that came before the request was sent: the rest of it would still follow."""
    ended = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")
        await ended.wait()
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = Pool(Dialer(URL(f"http://127.0.0.1:{port}"), SECONDS))
    connection = await pool.connect()
    response = connection.start(REQUEST + bytes(64 << 20), lambda _: Taker())
    assert (await response.read_head()).status == 413
    await response.read_body()
    connection.close()
    assert not connection.usable
    ended.set()
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0)
    with pytest.raises(UpstreamUnavailable):
        await pool.connect()


class Wire(asyncio.Transport):
    """A transport that takes all bytes, and notes whether it reads."""

    closing, reads = False, True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send nothing."""

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.closing = True


def make_started(wire: Wire, taker: Taker, head: bytes = WHOLE[:-6]) -> tuple[Connection, Response]:
    """Make a connection whose response has begun."""
    connection = Connection(Pool(Dialer(ORIGIN, 5)))
    connection.connection_made(wire)
    response = connection.start(REQUEST, lambda _: taker)
    connection.data_received(head)
    return connection, response


async def begin_delivery(response: Response) -> asyncio.Task[None]:
    delivery = asyncio.get_running_loop().create_task(response.read_body())
    await asyncio.sleep(0)
    return delivery


@each_row("early", [True, False])
@each_row("raised", [UpstreamError("no stream"), ValueError("a bug")])
async def test_what_a_receiver_raises_ends_the_connection(
    raised: Exception, *, early: bool
) -> None:
    class Raising(Taker):
        def receive(self, data: bytes) -> Wants:  # noqa: ARG002 - a receiver's
            raise raised

    connection, response = make_started(wire := Wire(), Raising())
    if early:
        connection.data_received(b"hel")
    else:
        asyncio.get_running_loop().call_soon(connection.data_received, b"hel")
    with pytest.raises(GatewayError) as told:
        await response.read_body()
    assert told.value is raised or isinstance(told.value, InternalError)
    connection.close()
    assert wire.closing


async def test_nothing_is_handed_to_a_receiver_that_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "has_time", lambda _: True)

    class Raising(Taker):
        def receive(self, data: bytes) -> Wants:
            super().receive(data)
            raise UpstreamError("no stream")

    connection, response = make_started(wire := Wire(), taker := Raising(), OK + b"\r\n")
    connection.data_received(bytes(2 * PIECE_BYTES))
    connection.data_received(b"more")
    assert wire.closing
    connection.connection_lost(None)
    assert [*map(len, taker.pieces)] == [PIECE_BYTES]
    with pytest.raises(UpstreamError):
        await response.read_body()


async def test_what_comes_after_a_receiver_has_all_is_dropped() -> None:
    connection, response = make_started(Wire(), taker := Taker(satisfied=True))
    for _ in range(2):
        reads = response.body_reads
        connection.data_received(b"h")
        assert response.body_reads == reads + 1, "it shows that the provider is alive"
    await response.read_body()
    assert taker.body == b"h"


async def test_a_connection_with_bytes_behind_its_response_is_cut() -> None:
    """Also where they wait for a receiver that asked to wait at the end."""
    connection, response = make_started(wire := Wire(), Taker(full=True))
    connection.data_received(b"hello!")
    connection.data_received(WHOLE)
    assert response.reader.done
    connection.close()
    assert wire.closing


async def test_a_read_of_a_chunk_size_alone_is_a_silence() -> None:
    connection, response = make_started(Wire(), Taker(), CHUNKED[: CHUNKED.index(b"6")])
    connection.data_received(b"6\r\n")
    assert response.body_reads == 0
    connection.data_received(b"h")
    assert response.body_reads == 1


@each_row("reset", [None, ConnectionResetError()])
async def test_the_rest_may_come_with_the_end_while_a_receiver_waits(
    reset: Exception | None,
) -> None:
    """It has all that it needs then, and no last chunk is missed."""
    read_on = asyncio.Event()

    class Waiting(Taker):
        def receive(self, data: bytes) -> Wants:
            super().receive(data)
            return Wants.NOTHING if b"!" in self.body else Wants.ROOM

        async def unblock(self) -> None:
            await read_on.wait()

    connection, response = make_started(Wire(), Waiting(), CHUNKED[: CHUNKED.index(b"6")])
    connection.data_received(chunked(b"hello"))
    delivery = await begin_delivery(response)
    connection.data_received(chunked(b"!"))
    connection.connection_lost(reset)
    read_on.set()
    await asyncio.wait_for(delivery, SECONDS)


async def test_a_response_that_failed_is_freed_with_its_connection_closed() -> None:
    """The frames of its error hold it, and it holds the request."""

    class Referred(Taker):
        """Its instances can be referred to weakly."""

    start = CHUNKED[: CHUNKED.index(b"6")]
    connection, response = make_started(Wire(), taker := Referred(), start)
    freed = weakref.ref(taker)  # as long as its response

    async def fail(response: Response) -> None:
        with pytest.raises(Broken):
            await response.read_body()

    connection.connection_lost(None)
    gc.disable()
    try:
        await fail(response)
        connection.close()
        del response, taker
        assert freed() is None
    finally:
        gc.enable()


async def test_what_came_before_a_mistake_is_handed_over() -> None:
    connection, response = make_started(Wire(), taker := Taker(), CHUNKED[: CHUNKED.index(b"6")])
    asyncio.get_running_loop().call_soon(connection.data_received, chunked(b"hello") + b"zz\r\n")
    with pytest.raises(Broken):
        await response.read_body()
    assert taker.body == b"hello"


@each_row("loop", LOOPS)
def test_a_large_read_is_handled_in_pieces_and_turns(loop: str) -> None:
    """However long the receiver takes for it, others have their turns meanwhile."""
    body, turns = bytes(range(256)) * 1024, list[int]()

    class Slow(Taker):
        def receive(self, data: bytes) -> Wants:
            turns.append(len(data))
            time.sleep(2 * TURN_SECONDS)  # uvloop tells time in whole milliseconds
            return super().receive(data)

    async def play() -> None:
        wire, taker = Wire(), Slow()
        connection, response = make_started(
            wire, taker, OK + b"Content-Length: %d\r\n\r\n" % len(body)
        )
        delivery = await begin_delivery(response)
        connection.data_received(body)
        assert len(turns) == 1
        assert not wire.reads
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(turns) <= 3
        await asyncio.wait_for(delivery, SECONDS)
        assert taker.body == body
        assert max(turns) <= PIECE_BYTES
        assert wire.reads
        turns.clear()

    run_on(loop, play())


@each_row("size", [1, PART_BYTES, PART_BYTES + 1])
async def test_what_comes_while_a_receiver_waits_is_kept(size: int) -> None:
    """Much pauses the transport; little does not, as most waits end before it."""
    connection, response = make_started(wire := Wire(), taker := Taker(full=True), OK + b"\r\n")
    delivery = await begin_delivery(response)
    connection.data_received(b"1")
    await asyncio.wait_for(taker.asked.wait(), SECONDS)
    assert wire.reads
    assert not response.awaits_provider
    connection.data_received(b"2" * size)
    assert wire.reads is (size <= PART_BYTES)
    assert not connection.usable, "the next request would take what waits for its answer"
    assert taker.body == b"1"
    taker.full = False
    taker.room.set()
    await until(lambda: response.awaits_provider, "the receiver to have all of it")
    assert wire.reads
    connection.data_received(b"3")
    connection.connection_lost(None)
    await asyncio.wait_for(delivery, SECONDS)
    assert taker.body == b"1" + b"2" * size + b"3"


async def test_bytes_that_wait_have_one_turn_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each more would take the turns of other connections, and do nothing."""
    deferred: list[Callable[[], object]] = []
    monkeypatch.setattr(Turns, "has_time", lambda _: not deferred)
    monkeypatch.setattr(Turns, "defer", lambda _, _owner, work: deferred.append(work))
    connection, response = make_started(wire := Wire(), taker := Taker(), OK + b"\r\n")
    deferred.append(lambda: None)
    for size in (AT_ONCE_BYTES + 1, 10, PART_BYTES):
        connection.data_received(bytes(size))
    assert not wire.reads
    assert not response.awaits_provider
    assert taker.body == b""
    _, work = deferred
    deferred.clear()
    work()
    assert len(taker.body) == AT_ONCE_BYTES + 1 + 10 + PART_BYTES
    assert wire.reads
    connection.data_received(b"at once")
    assert taker.body.endswith(b"at once")


async def test_what_came_with_the_end_is_handled_with_it() -> None:
    connection, response = make_started(Wire(), taker := Taker(), OK + b"\r\n")
    delivery = await begin_delivery(response)
    while find_turns().has_time():
        pass
    connection.data_received(b"x" * (AT_ONCE_BYTES + 1))
    connection.connection_lost(None)
    await asyncio.wait_for(delivery, SECONDS)
    assert len(taker.body) == AT_ONCE_BYTES + 1


def test_a_reply_over_tls_that_was_closed_while_its_receiver_waited_is_whole() -> None:
    """asyncio reads all for an `asyncio.Protocol`, not for a `BufferedProtocol`; uvloop drops the end."""
    body = b"x" * 300_000
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(CHAIN)
        with tls.wrap_socket(server.accept()[0], server_side=True) as peer:
            peer.recv(1 << 16)
            peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)

    async def play() -> None:
        serving = asyncio.get_running_loop().run_in_executor(None, serve)
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        pool = Pool(Dialer(URL(address), SECONDS, authorities=ROOT))
        connection, taker = await pool.connect(), Taker(full=True)
        response = connection.start(REQUEST, lambda _: taker)
        await response.read_head()
        delivery = asyncio.get_running_loop().create_task(response.read_body())
        await asyncio.wait_for(taker.asked.wait(), SECONDS)
        await serving
        taker.room.set()
        await asyncio.wait_for(delivery, SECONDS)
        pool.close()
        assert len(taker.body) == len(body)

    with server:
        run_on("asyncio", play())


SHORT_CHUNK: Final = (
    b"75\r\nevent: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n\r\n'
)
"""The shortest of usual events, in a chunk of its own."""


@each_row("most", [MOST_LINES, MOST_TRANSLATED_LINES])
@each_row(
    "event",
    [
        *(b"data: {}\n\n", b"a\r", b"data: {}\r\n\r\n", b": x\n\n", SHORT_CHUNK, b"x"),
        *(b"x" * size + b"\r" for size in (20, 94, 95, 378, 384, 400)),
    ],
)
def test_pieces_have_few_lines_however_short_these_are(event: bytes, most: int) -> None:
    """Each event takes its time, so a piece of tiny ones would make a long turn."""
    rest = event * (2**18 // len(event))
    pieces = []
    while rest:
        pieces.append(cut_piece(rest, most))
        rest = rest[len(pieces[-1]) :]
    assert b"".join(pieces) == event * (2**18 // len(event))
    lines = max(event.count(b"\n"), event.count(b"\r"))
    assert max(one.count(end) for one in pieces for end in (b"\n", b"\r")) <= most
    longest = PIECE_BYTES if not lines else min(most // lines * len(event), PIECE_BYTES)
    assert longest // 2 <= len(pieces[0]) <= PIECE_BYTES


def pack(body: bytes, window: int = 31) -> bytes:
    packer = zlib.compressobj(wbits=window)
    return packer.compress(body) + packer.flush()


HELLO: Final = pack(b"hello!")


@each_row(
    ("encoding", "packed", "told"),
    [
        (b"gzip", HELLO, b"hello!"),
        (b"x-gzip", HELLO, b"hello!"),
        (b"Identity, GZip", HELLO, b"hello!"),
        (b"gzip", HELLO + pack(b"") + HELLO, b"hello!hello!"),
        (b"deflate", pack(b"hello!", 15), b"hello!"),
        (b"deflate", pack(b"hello!", -15), b"hello!"),
        (b"identity", HELLO, HELLO),
        (b"br", HELLO, HELLO),
        (b"gzip, gzip", pack(HELLO), pack(HELLO)),
        (b"gzip", b"", b""),
        (b"gzip", b"hello!", "encoding that its head says"),
        (b"gzip", HELLO[:-8] + bytes(8), "encoding that its head says"),
        (b"gzip", HELLO + b"hello!", "encoding that its head says"),
        (b"gzip", HELLO[:-1], "cut short"),
        (b"deflate", pack(b"hello!", 15)[:1], "cut short"),
        (b"deflate", pack(b"hello!", 15) + b"!", "after its compressed body"),
    ],
)
async def test_a_packed_body_is_unpacked_wherever_it_is_cut(
    encoding: bytes, packed: bytes, told: bytes | str
) -> None:
    head = OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (encoding, len(packed))
    for split in range(len(packed) + 1):
        connection, response = make_started(Wire(), taker := Taker(), head)
        for piece in filter(None, (packed[:split], packed[split:])):
            asyncio.get_running_loop().call_soon(connection.data_received, piece)
        if isinstance(told, bytes):
            await asyncio.wait_for(response.read_body(), SECONDS)
            assert taker.body == told, split
            continue
        with pytest.raises(Broken, match=told):
            await asyncio.wait_for(response.read_body(), SECONDS)


PACKED: Final = OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_what_a_packer_flushes_is_handed_over_at_once() -> None:
    connection, response = make_started(Wire(), taker := Taker(), PACKED)
    packer = zlib.compressobj(wbits=31)
    delivery = await begin_delivery(response)
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        packed = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
        connection.data_received(chunked(packed))
        assert taker.pieces.pop() == event
        taker.satisfied = True  # by the next, the last
    await asyncio.wait_for(delivery, SECONDS)


@each_row("packed", [pack(bytes(64 << 20)), pack(b"") * 20_000 + pack(bytes(64 << 20))])
async def test_a_bomb_costs_what_its_receiver_takes(packed: bytes) -> None:
    """It is unpacked in steps: others have their turns, a full receiver is waited for, a refusal ends it."""
    connection, response = make_started(wire := Wire(), taker := Taker(full=True), PACKED)
    delivery = await begin_delivery(response)
    began = time.process_time()
    connection.data_received(chunked(packed))
    assert time.process_time() - began < 0.25
    await asyncio.wait_for(taker.asked.wait(), SECONDS)
    assert [*map(len, taker.pieces)] == [STEP_BYTES]
    connection.data_received(chunked(bytes(PART_BYTES)))
    assert not wire.reads, "what waits is more than a part"
    taker.room.set()
    turns = 0
    while len(taker.pieces) < 8192:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1
    response.fail(UpstreamError("too large"))
    with pytest.raises(UpstreamError):
        await asyncio.wait_for(delivery, SECONDS)
    assert len(taker.body) < 32 << 20


@dataclass(eq=False)
class Kept:
    """An idle connection."""

    usable: bool = True
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def put(pool: Pool, *kept: Kept) -> None:
    for one in kept:
        pool.put(cast("Connection", one))


def get(pool: Pool) -> Any:
    return pool.take()


async def test_the_connection_used_last_serves_first() -> None:
    pool, first, last = Pool(Dialer(ORIGIN, 5)), Kept(), Kept()
    put(pool, first, last)
    assert [get(pool), get(pool)] == [last, first]
    pool.close()


async def test_one_that_cannot_serve_is_passed_over() -> None:
    pool, good, bad, lost = Pool(Dialer(ORIGIN, 5)), Kept(), Kept(usable=False), Kept()
    put(pool, good, bad, lost)
    pool.discard(cast("Connection", lost))
    pool.discard(cast("Connection", lost))
    assert get(pool) is good
    assert bad.closed
    pool.close()


async def test_closing_closes_what_is_idle_and_ends_the_timer() -> None:
    pool, kept, loop = Pool(Dialer(ORIGIN, 5)), Kept(), asyncio.get_running_loop()
    put(pool, kept)
    assert pool._expiry is not None
    assert pool._expiry.when() - loop.time() == pytest.approx(15, abs=5), "its time"
    pool.close()
    assert kept.closed
    assert pool._expiry.cancelled()


async def test_the_oldest_are_closed_when_their_time_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, old, young = Pool(Dialer(ORIGIN, 5)), Kept(), Kept()
    monkeypatch.setattr("gateway.upstream.connection.IDLE_SECONDS", 0)
    put(pool, old)
    monkeypatch.setattr("gateway.upstream.connection.IDLE_SECONDS", 600)
    put(pool, young)
    while not old.closed:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert not young.closed
    assert get(pool) is young
    pool.close()


async def test_what_comes_back_after_the_close_is_closed() -> None:
    """A provider that a reload took away may still send."""
    pool, late = Pool(Dialer(ORIGIN, 5)), Kept()
    pool.close()
    put(pool, late)
    assert late.closed
    assert pool._expiry is None
